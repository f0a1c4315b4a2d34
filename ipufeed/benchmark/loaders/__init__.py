"""Loaders of other frameworks: recognising, iterating and measuring them.

    kinds      the framework of an object, and how to start a pass over it
    batch_steps its step that batches, and the size of a batch
    leaves     an element's arrays: bytes, leading dimensions, copies
    tables     the columns of tables of Arrow, pandas and polars, and their bytes
    rows       its samples
    failure    what a loader raises, as the result shows it
    consumer   the loop that takes, counts and stamps the elements
    stages     where the time goes, as Grain and SPDL report it
    element_arrays an element's arrays, of types that a feed carries
    as_dataset a tf.data dataset of a loader, for the device

Uses ipufeed.sources and result. Only the loader itself imports its framework.
"""
