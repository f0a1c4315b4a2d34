"""Further modules of Graphcore's that programs import, by the names of the originals.

    gen_*, config_pb2            raw operations, and the message of a configuration
    popdist*, horovod            programs in several processes; host_collectives: their
                                 collectives
    session_run_hooks            logs tensors of a program in a session
    dataset_extractor            elements and variables in files (numpy_files: their format)
    buffer_dataset               a dataset that is read in groups of elements
    event_traces                 traces, which are empty here
    missing_modules              what does not exist here, and its replacement
    accumulated_uses             a check of gen_poputil_ops

ipufeed.graphcore_names has the names that programs import them by. Uses ipufeed.device,
ipufeed.ops, ipufeed.parallel and ipufeed.queues.
"""
