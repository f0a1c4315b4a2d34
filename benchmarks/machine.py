"""Describes the machine and the date, for pages of figures."""

import datetime

from ipufeed.benchmark.measuring.machine import fingerprint


def with_machine(head: str) -> str:
    """Fills date, machine and versions into the head of a page."""
    machine = fingerprint()
    return head.format(
        date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        cpu=machine["cpu"],
        cpus=machine["usable_cpus"],
        memory=(machine["memory_bytes"] or 0) / 2**30,
        kernel=machine["kernel"],
        python=machine["python"],
        tensorflow=machine["tensorflow"],
    )
