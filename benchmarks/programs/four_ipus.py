"""Runs one program on one IPU, and then four on four at once; prints the seconds of both.

    python -m benchmarks.programs.four_ipus REPEATS

Each program takes 300 elements that its dataset gives at 1 ms each, sleeping. A lock
or a pool that all four share would make them slower than one.
"""

import sys
import threading

from benchmarks import feeds

ELEMENTS = 300
IPUS = 4


def main() -> None:
    """Prints a line for each repeat: the seconds of one program, and of four."""
    import ipufeed
    from ipufeed.queues import IPUOutfeedQueue

    config = ipufeed.IPUConfig()
    config.auto_select_ipus = [1] * IPUS
    config.configure_ipu_system()
    runs = []
    for ordinal in range(IPUS):
        outfeed = IPUOutfeedQueue(device_ordinal=ordinal, buffer_depth=ELEMENTS)
        queue = feeds.infeed(feeds.slow_source(1e-3), device_ordinal=ordinal)
        runs.append(feeds.program(outfeed.enqueue, [], queue, ordinal))

    def at_once(count: int) -> None:
        threads = [
            threading.Thread(target=run, args=(ELEMENTS,)) for run in runs[:count]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    at_once(IPUS)  # empties what was read ahead
    for _ in range(int(sys.argv[1])):
        one = feeds.seconds(lambda: at_once(1))
        print(one, feeds.seconds(lambda: at_once(IPUS)), flush=True)


if __name__ == "__main__":
    main()
