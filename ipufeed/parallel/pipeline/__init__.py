"""Pipelines: stages on IPUs of their own, the schedules.

    pipeline      pipelining_ops.pipeline: its arguments, and the loop of executions
    arguments     all arguments, checked together
    *checks       errors of stages, counts, schedules and options (options: their classes)
    stages        stages and their gradients, traced into one graph (traced, gradients)
    partition     the ops of each position; recomputation: what it computes twice
    plan          the positions, and the rings between IPUs; schedules: their order
    execution     builds an execution: the programs of its IPUs, and the weight update
    ipu_program   the loop of an IPU, which adds up its gradients (`accumulate`)
    sums          how each gradient and output is accumulated: dtype, sum or mean
    weight_update applies the accumulated gradients
    copying       copies traced ops into the program that is built

Uses optimizers, ipufeed.device, ipufeed.executable and ipufeed.queues.
"""
