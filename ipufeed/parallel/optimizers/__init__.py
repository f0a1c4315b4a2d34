"""Optimizers: mean over replicas, gradient accumulation, shards, offloaded state.

    optimizers         mean over replicas, shards, mapped gradients; wrapper: their base
    accumulation       one update for several mini-batches; accumulator: its state
    gradient_capture   gradients of tensors inside a model
    offloading         state in the host's memory
    outside_variables  state that is created while a program is traced
    arguments          arguments that all kinds of optimizers share

Uses collectives, ipufeed.device and ipufeed.queues.
"""
