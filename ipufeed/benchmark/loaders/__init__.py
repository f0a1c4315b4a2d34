"""Measuring loaders of other frameworks, which sources.loaders recognises.

    rows       the samples of an element
    extents    the bytes and samples of elements, as those of the ones before
    consumer   the loop that takes, counts and stamps the elements
    consume    runs it on its own thread, and waits for it
    calibration what that loop itself takes
    stages     where the time goes, as Grain and SPDL report it

Uses ipufeed.sources and result.
"""
