"""Further modules that programs import: hooks, raw ops, popdist, Horovod.

ipufeed.graphcore_names has the names that programs import them by. Uses device, ops,
parallel and queues.
"""
