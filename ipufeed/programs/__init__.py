"""What programs import in addition to ipu's own modules: hooks, raw ops, popdist, Horovod.

ipufeed.graphcore_names says under which names they are found. Uses device, ops, parallel
and queues.
"""
