"""A process of tf.data service: python -m ipufeed.benchmark.scaleout.server KIND JSON.

It prints its address as one line of JSON when it is up, and then serves until it is killed:
by the process that started it, or by the kernel when that process ends in whatever way.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import signal
import sys
from typing import Any

from ipufeed.benchmark.process.child_process import die_with

COUNTER_BYTES = 8


def count_into(path: str, number: int) -> None:
    """Counts the elements of this worker in a file that its parent has mapped."""
    from ipufeed import _native

    with open(path, "r+b") as file:
        whole = mmap.mmap(file.fileno(), 0)
    counter = ctypes.c_int64.from_buffer(whole, number * COUNTER_BYTES)
    _native.entry().ipufeed_count_elements_at(ctypes.addressof(counter))
    # For the life of the process: native code writes there.
    count_into.__dict__["mapped"] = (whole, counter)


def serve(kind: str, options: dict[str, Any]) -> Any:
    """Starts the server; returns it and its address."""
    from ipufeed import _native

    _native.load()  # the dispatcher, too: it looks into the pipeline for its splits
    import tensorflow as tf

    service = tf.data.experimental.service
    if kind == "dispatcher":
        dispatcher = service.DispatchServer(
            service.DispatcherConfig(
                port=0,
                worker_addresses=options["worker_addresses"],
                worker_timeout_ms=options["worker_timeout_ms"],
                job_gc_check_interval_ms=1000,
            )
        )
        return dispatcher, dispatcher._address
    count_into(options["counters"], options["number"])
    worker = service.WorkerServer(
        service.WorkerConfig(
            dispatcher_address=options["dispatcher"],
            worker_address="localhost:%port%",
            port=0,
            heartbeat_interval_ms=500,
            dispatcher_timeout_ms=10_000,
        )
    )
    return worker, worker._address


def main() -> None:
    """Serves until the end of the process."""
    kind, options = sys.argv[1], json.loads(sys.argv[2])
    die_with(options["parent"])
    # Ctrl-C in a terminal means the benchmark, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server, address = serve(kind, options)
    sys.stdout.write(json.dumps({"address": address}) + "\n")
    sys.stdout.flush()
    server.join()


if __name__ == "__main__":
    main()
