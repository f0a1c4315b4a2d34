"""Processes of a service that end, die or are silent."""

import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import children
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S, ROOT

from ipufeed.benchmark.measuring.measure import measure_run
from ipufeed.benchmark.measuring.run import Progress, run_measurement
from ipufeed.benchmark.report.summary_modes import service_rows
from ipufeed.benchmark.result.settings import Settings
from ipufeed.benchmark.scaleout import service as scaleout_service
from ipufeed.benchmark.scaleout import watch as service_watch
from ipufeed.benchmark.scaleout.cluster import Cluster
from ipufeed.benchmark.scaleout.service import (
    death_warnings,
    with_efficiency,
)
from ipufeed.benchmark.scaleout.settings import ServiceSettings
from ipufeed.benchmark.scaleout.watch import ServiceLostError, Watch

pytestmark = pytest.mark.usefixtures("forked")


@pytest.mark.process
def test_processes_end_with_their_parent(tmp_path):
    """Also when that is killed: nothing is left behind, at whatever moment it was."""
    script = (
        "import os, sys, time, json, pathlib\n"
        "sys.argv = ['-m']; sys.orig_argv = ['python', '-m', 'ipufeed.x']\n"
        "from ipufeed.benchmark.process.child_process import Child\n"
        "options = json.dumps({'parent': os.getpid(), 'worker_addresses': None,"
        " 'worker_timeout_ms': 1000})\n"
        "child = Child('dispatcher', 'ipufeed.benchmark.scaleout.server',"
        f" ['dispatcher', options], pathlib.Path({str(tmp_path / 'log')!r}))\n"
        "print(child.process.pid, flush=True)\n"
        "time.sleep(100)\n"
    )
    parent = children.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    number = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + DEADLOCK_S
    while alive(number) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert not alive(number)


def alive(number):
    """Whether the process runs; one that has ended but is not reaped yet does not."""
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def child(what, running=True, code=-9):
    return SimpleNamespace(
        what=what,
        alive=lambda: running,
        process=SimpleNamespace(returncode=None if running else code),
        cpu_seconds=1.0,
        peak_rss_bytes=1,
    )


def made_up(dispatcher=True, workers=(True, True), counts=(7, 7)):
    processes = [child(f"worker {k}", running) for k, running in enumerate(workers)]
    return SimpleNamespace(
        dispatcher=child("dispatcher", dispatcher, 1),
        workers=processes,
        counts=lambda: list(counts),
    )


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (made_up(dispatcher=False), "the dispatcher of tf.data service has ended"),
        (made_up(workers=(False, False)), "all tf.data service workers exited"),
    ],
)
def test_a_loss_that_nothing_survives_ends_the_run_at_once(cluster, words):
    """Without a dispatcher, or without any worker, no reader waits."""
    watch = Watch(cluster, "", None)

    with pytest.raises(ServiceLostError, match=words):
        watch(Progress(1, 1, 1, 1))
    assert watch.deaths[0]["how"] in ("exit code 1", "signal 9")


def test_a_worker_that_dies_is_noted_while_the_others_go_on(monkeypatch):
    """The run ends only when elements stop coming."""
    now = [100.0]
    monkeypatch.setattr(service_watch.time, "monotonic", lambda: now[0])
    watch = Watch(made_up(workers=(False, True)), "", None)
    for elements in (1, 2, 3):
        watch(Progress(elements, 1, 1, 1))
        now[0] += 4
    now[0] += 2

    with pytest.raises(
        ServiceLostError, match="worker 0 has ended, and no element came for 5 s"
    ):
        watch(Progress(3, 1, 1, 1))
    assert [death["process"] for death in watch.deaths] == ["worker 0"]


def test_silence_after_a_death_gives_no_rate(monkeypatch):
    """A rate ends with the elements, a dead worker's with it; the rest is reported."""
    now, counts = [100.0], [0, 0]
    monkeypatch.setattr(service_watch.time, "monotonic", lambda: now[0])
    cluster = made_up(counts=counts)
    watch = Watch(cluster, "", None)

    def pass_second(*made):
        now[0] += 1
        for number, more in enumerate(made):
            counts[number] += more
        watch(Progress(1 + sum(counts), 1, 1, 1))

    watch(Progress(1, 1, 1, 1))
    pass_second(20, 10)
    cluster.workers[0].alive = lambda: False
    cluster.workers[0].process.returncode = -9
    pass_second(0, 10)
    pass_second(0, 10)
    for _ in range(4):
        pass_second(0, 0)
    watch.finish()

    rates = [row["elements_per_second"] for row in watch.worker_rows(True)]
    assert rates == pytest.approx([20 / 2, 10])  # seen to have ended after the second
    assert watch.silent_at_end == pytest.approx(4)
    section = {"deaths": watch.deaths, "sharding": "dynamic"}
    (warning,) = death_warnings(section, watch.silent_at_end)
    assert "No element came in the last 4 s of the run" in warning["message"]


def test_a_service_of_others_is_left_when_it_is_silent(monkeypatch):
    """Gone: after seconds; there and silent: after two minutes."""
    now = [100.0]
    monkeypatch.setattr(service_watch.time, "monotonic", lambda: now[0])
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        target = f"grpc://localhost:{listener.getsockname()[1]}"
        listener.listen()
        watch = Watch(None, target, None)
        now[0] += 60
        watch(Progress(0, 0, 0, 0))
        now[0] += 61
        with pytest.raises(
            ServiceLostError, match=r"gave no element for 120 s: check that workers"
        ):
            watch(Progress(0, 0, 0, 0))
    watch = Watch(None, target, None)
    now[0] += 6
    with pytest.raises(ServiceLostError, match=r"no server listens at .* any more"):
        watch(Progress(0, 0, 0, 0))


def test_efficiency_is_against_as_many_single_workers():
    """Without a point of one worker, or without a rate, there is none."""
    rates = [(0, 90.0), (1, 80.0), (2, 120.0), (4, None)]
    rows = [{"workers": n, "elements_per_second": rate} for n, rate in rates]

    assert [row["efficiency"] for row in with_efficiency(rows)] == [None, 1, 0.75, None]
    assert [row["efficiency"] for row in with_efficiency(rows[2:])] == [None, None]


def test_workers_that_are_not_counted_are_noted():
    """File sharding looks for the reader behind steps that TensorFlow knows."""
    worker = {
        "worker": 0,
        "elements": None,
        "elements_per_second": None,
        "cpus_busy": 0.5,
        "died": True,
    }
    section = {
        "service": "local:1",
        "sharding": "file",
        "compression": "none",
        "workers": [worker],
        "scale": [],
    }

    assert service_rows(section)[1] == (
        "worker 0",
        "not counted with this sharding, 0.50 CPUs busy, died",
    )


def test_the_time_of_the_workers_is_not_that_of_others():
    """Else a service would always be a busy machine, and comparisons undecided."""
    dataset = tf.data.Dataset.range(10)
    long_ago, now = 0.0, 1e9

    result = measure_run(
        run_measurement, dataset, Settings(), helpers_s=iter([long_ago, now]).__next__
    )

    assert result.machine["cpus_used_by_others"] == 0.0


def test_a_service_counts_the_time_of_its_own_processes(monkeypatch):
    """Of dispatcher and workers; one that has ended keeps what it used."""

    def child(seconds):
        return SimpleNamespace(alive=lambda: False, cpu_seconds=seconds, kill=int)

    def start(cluster):
        cluster.dispatcher, cluster.workers = child(1.0), [child(2.0), child(4.0)]

    found = []

    def measure(*_, helpers_s, **__):
        found.append(helpers_s())
        raise InterruptedError

    monkeypatch.setattr(Cluster, "start", start)
    monkeypatch.setattr(scaleout_service, "distribute", lambda *_: None)
    monkeypatch.setattr(scaleout_service, "measure_run", measure)
    with pytest.raises(InterruptedError):
        scaleout_service.measure_service(
            tf.data.Dataset.range(10), service=ServiceSettings(service="local:2")
        )

    assert found == [7.0]
