"""Loaders of other frameworks: what they are, how they are iterated, what they give.

    kinds      which framework an object is of, and how a pass over it begins
    leaves     an element's arrays: bytes, leading dimensions, copies
    consumer   the loop that takes the elements, counts and stamps them
    stages     where the time goes, as Grain and SPDL report it
    as_dataset a tf.data dataset of a loader, for the device

Uses nothing of the package but errors; a framework is imported only by the loader itself.
"""
