"""The queues between the host and a simulated IPU.

    dataset --> IPUInfeedQueue --> feeder thread --> ring --> program on /device:IPU:n
    results <-- IPUOutfeedQueue <------------------- ring <-- (a compiled loop)

The program that reads an infeed wakes its feeder once the ring is half empty. It moves
the results of a full outfeed into the outfeed's store (`set_outfeed_limit`, bytes), and
waits when that is full, too.

    infeed, outfeed  the two queues; iterators: `next(iterator)` of an infeed in a function
    outfeed_reader   results in eager mode: all, the next, the last, or a stream
    arguments, ...   checks of arguments, of elements (structure), of devices (placement)
    chain            the order of a program's queue ops; chained_ops: which ops have it
    interrupt        Ctrl-C and SIGTERM stop programs; eager_calls: the end of each call
    *_errors         what errors of XLA and of users' libraries say in addition
    stats, limits    the counters of a queue; the stall report and the outfeed limit

Python builds the ops; the native core (ipufeed/cc) moves the data. Uses no other folder:
hooks.py holds the functions of the device package that the queues call.
"""

from __future__ import annotations

from ipufeed.queues import autograph as _autograph  # noqa: F401
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.iterators import IPUIterator, IPUOwnedIterator
from ipufeed.queues.limits import set_outfeed_limit, set_stall_report
from ipufeed.queues.outfeed import (
    IPUOutfeedMode,
    IPUOutfeedQueue,
    IPUOutfeedQueueIterator,
)
from ipufeed.queues.scoped_outfeed import ScopedIPUOutfeedQueue
from ipufeed.queues.stats import QueueStats

__all__ = [
    "IPUInfeedQueue",
    "IPUIterator",
    "IPUOutfeedMode",
    "IPUOutfeedQueue",
    "IPUOutfeedQueueIterator",
    "IPUOwnedIterator",
    "QueueStats",
    "ScopedIPUOutfeedQueue",
    "set_outfeed_limit",
    "set_stall_report",
]
