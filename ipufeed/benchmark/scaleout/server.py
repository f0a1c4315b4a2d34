"""A server of tf.data service: python -m ipufeed.benchmark.scaleout.server KIND JSON.

Prints its address as a line of JSON when it serves, and then serves until it is killed: by
the process that started it, or by the kernel when that process ends.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import signal
import sys
from typing import Any

from ipufeed import _native
from ipufeed.benchmark.process.child_process import end_with_parent

COUNTER_BYTES = 8


def _count_into(path: str, number: int) -> None:
    """Makes native code count this worker's elements in a file that its parent maps."""
    with open(path, "r+b") as file:
        whole = mmap.mmap(file.fileno(), 0)
    counter = ctypes.c_int64.from_buffer(whole, number * COUNTER_BYTES)
    _native.entry().ipufeed_count_elements_at(ctypes.addressof(counter))
    # Referenced for the life of the process: native code writes there.
    _count_into.__dict__["mapped"] = (whole, counter)


def _serve(kind: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Starts a server; returns it and its address."""
    _native.load()  # also in the dispatcher, which reads the pipeline for its splits
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
    _count_into(options["counters"], options["number"])
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
    end_with_parent(options["parent"])
    # Ctrl-C in a terminal means the benchmark, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server, address = _serve(kind, options)
    sys.stdout.write(json.dumps({"address": address}) + "\n")
    sys.stdout.flush()
    server.join()


if __name__ == "__main__":
    main()
