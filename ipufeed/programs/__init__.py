"""Further modules that programs import: hooks, raw ops, popdist, Horovod.

ipufeed.graphcore_names has the names that programs import them by. Uses ipufeed.device,
ipufeed.ops, ipufeed.parallel and ipufeed.queues.
"""
