"""What several test files share."""

from __future__ import annotations

import concurrent.futures
import faulthandler
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import children
import numpy as np

ROOT = Path(__file__).resolve().parents[2]

# The limit of every wait for a thread, a process or a compiler: far above any healthy
# run, also on a machine that stands still for minutes, and below pytest's own, which ends
# the whole worker. Only a hang gets there.
DEADLOCK_S = 400.0
STACKS_S = 2.0  # for a process that is stuck to print where its threads are


def run_op(dataset: Any, **attributes: Any) -> tuple[dict[str, int], dict[str, Any]]:
    """Runs the measuring op as it is; returns its counters and its other outputs."""
    import tensorflow as tf

    from ipufeed import _native

    output = _native.load().ipufeed_measure_dataset(
        dataset._variant_tensor, run=tf.constant(0, tf.int64), **attributes
    )
    names = [name.decode() for name in output.names.numpy()]
    counters = dict(zip(names, output.values.numpy().tolist(), strict=True))
    return counters, {
        "epochs": output.epoch_table.numpy(),
        "stamps": output.stamps.numpy(),
        "code": int(output.failure_code.numpy()),
        "message": output.failure_message.numpy().decode(),
        "marks": output.marks.numpy(),
    }


def sleeping(seconds_per_element: float) -> Any:
    """Returns an endless dataset that sleeps for each element, and takes hardly any CPU."""
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import testing

    endless = tf.data.Dataset.range(1).repeat()
    return endless.apply(testing.sleep(round(seconds_per_element * 1e6)))


def run_python(
    code: str, log_level: str = "3", *, forked: bool = True, **environment: str
) -> subprocess.CompletedProcess:
    """Runs code in a process of its own, from the project's root, with a time limit.

    forked: from a process that has imported TensorFlow, where that makes no difference.
    Without it the interpreter is a new one.
    """
    run = children.run if forked else subprocess.run
    return run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        cwd=ROOT,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": log_level, **environment},
    )


def module_runs(run: Callable[[str, Path], Any], names: Iterable[str]) -> Any:
    """The module's fixture `runs`: name -> run(name, folder), each in its own folder.

    All of them run before the first test, two at a time, since most of them also wait.
    """
    import pytest  # child processes import this file, too

    @pytest.fixture(name="runs", scope="module")
    def get(tmp_path_factory: Any) -> dict[str, Any]:
        # On this thread: pytest's factory makes its base folder at the first call, and
        # a second thread at that moment finds it half made.
        cases = list(names)  # now: a module names them after it has imported this
        folders = [tmp_path_factory.mktemp("run") for _ in cases]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return dict(zip(cases, pool.map(run, cases, folders), strict=True))

    return get


def free_addresses(count: int) -> list[str]:
    """Addresses of this machine without a listener."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    found = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return found


def cluster(addresses: list[str], index: int) -> str:
    """TF_CONFIG for one of the processes at these addresses."""
    task = {"type": "worker", "index": index}
    return json.dumps({"cluster": {"worker": addresses}, "task": task})


def run_cluster(program: str, *arguments: str) -> list[tuple[int, dict[str, Any], str]]:
    """Runs a program of this folder as two processes of one cluster.

    Returns each one's exit code, what it has printed by the case, and its stderr. The
    outputs are read all the time: a process whose pipe is full keeps the other one waiting.
    At the limit each prints its threads' stacks (print_stacks_on_signal()).
    """
    addresses = free_addresses(2)
    started = [
        children.Popen(
            [sys.executable, str(Path(__file__).parent / program), *arguments],
            env={
                **os.environ,
                "TF_CONFIG": cluster(addresses, index),
                "TF_CPP_MIN_LOG_LEVEL": "3",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(len(addresses))
    ]
    with concurrent.futures.ThreadPoolExecutor(len(started)) as pool:
        outputs = [pool.submit(each.communicate) for each in started]
        try:
            late = concurrent.futures.wait(outputs, DEADLOCK_S).not_done
            if late:
                for each in started:
                    each.send_signal(signal.SIGUSR1)
                concurrent.futures.wait(outputs, STACKS_S)
        finally:
            for each in started:
                each.kill()
    ended = [output.result() for output in outputs]
    assert not late, "\n".join(
        f"process {index} {'has not ended' if output in late else 'has ended'}:\n{err}"
        for index, (output, (_, err)) in enumerate(zip(outputs, ended, strict=True))
    )
    said = [
        {
            case: result
            for line in out.splitlines()
            for case, result in json.loads(line).items()
        }
        for out, _ in ended
    ]
    return [
        (process.returncode, result, err)
        for process, result, (_, err) in zip(started, said, ended, strict=True)
    ]


def print_stacks_on_signal() -> None:
    """In a program of run_cluster(): SIGUSR1 makes it print its threads' stacks."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)


def threads() -> int:
    """Threads of this process."""
    return len(os.listdir("/proc/self/task"))


def live_feeders() -> int:
    """Feeders at work in this process, once what earlier tests have dropped is gone."""
    from ipufeed import _native

    count, found = _native.entry().ipufeed_live_feeders, -1
    gc.collect()
    while found != (now := count()):  # they end on threads of their own
        found = now
        time.sleep(0.2)
    return found


def rss_bytes() -> int:
    """Memory that this process holds now."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def stamps(seconds: list[float]) -> np.ndarray:
    """Times in seconds as the op gives them."""
    return np.round(np.asarray(seconds) * 1e9).astype(np.int64)
