"""`--through device` and `--step-time`: measures a dataset through the simulated IPU.

    measure      the whole path and each link of it; run: one run
    utilisation  fractions of the device's time: computing, starved, blocked
    section      `device` of the result, with the verdict (host-bound, ...)
    links, knee  the slowest link; the utilisation by the step time
    free_source  the simulator's overhead
    feed_check   whether an infeed can carry the elements
    settings     step time, results and presets; warnings: what to know of the numbers

Uses loaders, measuring, result, ipufeed.device, ipufeed.queues and ipufeed.sources. It
does not import another mode (cold, scaleout).
"""
