"""Loaders of other frameworks: recognised, and read as a tf.data dataset.

    kinds           the framework of an object, and how to start a pass over it
    passes          the context managers of these
    batch_steps     its step that batches, and the size of a batch
    leaves          an element's arrays: bytes, leading dimensions, copies
    tables          the columns of tables of Arrow, pandas and polars, and their bytes
    element_arrays  an element's arrays, of types that a feed carries
    failure         what a loader raises, as results and errors show it
    python_elements a dataset whose elements Python reads
    as_dataset      a dataset of a loader

Uses no other folder. Only the loader itself imports its framework.
"""
