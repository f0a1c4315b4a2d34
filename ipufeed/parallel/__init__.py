"""Programs of several IPUs: what their copies exchange, optimizers, and pipelines.

collectives.py             tensors between replicas: sum, mean, gather, scatter, all to all
processes.py               sums and means between replicas of several processes
reduction_method.py        SUM, MEAN or RUNNING_MEAN of gradients
wrapper.py                 what the optimizers here have in common
optimizers.py              mean over replicas, shards, gradients that are mapped
accumulation.py            one update for several mini-batches
captured.py                gradients in the middle of a model
offloading.py              an optimizer's state in the host's memory
pipeline.py                stages on IPUs of their own, and what is beside it here
"""
