"""tf.data service: what each policy delivers, and what is left when a worker dies.

The processes are true ones, three for each policy, forked from one that has imported
TensorFlow; those of the command start as a user's do. What no test should wait for
(time-outs, a dispatcher that dies) is tested on made-up processes.
"""

import collections
import json
import os
import socket
import sys

import children
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S, ROOT
from tensorflow.python.data.experimental.ops import testing

from ipufeed.benchmark import Settings
from ipufeed.benchmark.scaleout import service as service_module
from ipufeed.benchmark.scaleout.cluster import Cluster
from ipufeed.benchmark.scaleout.service import (
    _check_reachable,
    death_warnings,
    distribute,
    measure_service,
    run_watched,
)
from ipufeed.benchmark.scaleout.settings import ServiceSettings
from ipufeed.benchmark.scaleout.watch import Watch
from ipufeed.errors import ScaleOutError

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("forked")]

ELEMENTS, SPLIT = 600, 30
WHOLE = {"epochs": 0, "seconds_ns": 0, "passes": 1, "epoch_per_pass": False}


def numbered(seconds):
    """0, 1, 2, ..., each after a sleep; dynamic sharding deals out SPLIT of them."""
    firsts = tf.data.Dataset.range(0, ELEMENTS, SPLIT)
    numbers = firsts.flat_map(lambda k: tf.data.Dataset.range(k, k + SPLIT))
    return numbers.apply(testing.sleep(round(seconds * 1e6)))


def deliver(cluster, policy, kill_after, seconds):
    """How often each element came, the raw measurement, and the watch."""
    arrived = collections.Counter()

    def note(number):
        arrived[int(number)] += 1
        return number

    remote = distribute(
        numbered(seconds),
        cluster.target,
        ServiceSettings(service="local:2", sharding=policy),
        True,
    ).map(lambda number: tf.numpy_function(note, [number], tf.int64))
    watch = Watch(cluster, cluster.target, kill_after)
    raw, interruption = run_watched(remote, dict(WHOLE), None, watch)
    assert interruption is None
    return arrived, raw, watch


# Policy: how often each element comes while all is well.
POLICIES = {"off": 2, "dynamic": 1, "data": 1}


def check_files(cluster, folder):
    """File sharding delivers each line once, and nothing is counted for it."""
    paths = [folder / f"{number}.txt" for number in range(4)]
    for number, path in enumerate(paths):
        path.write_text("".join(f"{number}.{line}\n" for line in range(25)))
    lines = tf.data.Dataset.from_tensor_slices(
        [str(path) for path in paths]
    ).interleave(tf.data.TextLineDataset)
    settings = ServiceSettings(service="local:2", sharding="file")
    before = cluster.counts()
    remote = distribute(lines, cluster.target, settings, counted=False)
    arrived = [line.decode() for line in remote.as_numpy_iterator()]

    assert sorted(arrived) == sorted(f"{n}.{k}" for n in range(4) for k in range(25))
    assert cluster.counts() == before


def check_foreign(cluster):
    """A service that is there is used as it is: its processes are not ours to look at."""
    result = measure_service(
        tf.data.Dataset.range(50),
        Settings(passes=1),
        service=ServiceSettings(service=cluster.target, sharding="dynamic"),
    )

    assert result.elements == 50
    assert result.service["workers"] is None
    assert result.service["service"] == cluster.target


@pytest.mark.process
@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_keeps_its_promise_and_a_dead_worker_breaks_no_more(policy, tmp_path):
    """Nothing is lost or repeated beyond what the policy says, with a death and without.

    No reader waits for what a dead worker had: the run ends with an error that names it.
    """
    times = POLICIES[policy]
    with Cluster(2) as cluster:
        arrived, raw, watch = deliver(cluster, policy, None, 0.0005)
        assert raw.failure is None
        assert dict(arrived) == dict.fromkeys(range(ELEMENTS), times)
        assert watch.deaths == []
        # With data sharding each worker makes all, and sends its part.
        made = ELEMENTS if policy == "dynamic" else 2 * ELEMENTS
        assert sum(cluster.counts()) == made

        if policy == "data":  # while there are two workers
            check_files(cluster, tmp_path)
        if policy == "dynamic":
            check_foreign(cluster)

        arrived, raw, watch = deliver(cluster, policy, 0.3, 0.005)
        counts = cluster.counts()

    assert isinstance(raw.failure, tf.errors.UnavailableError)
    assert "worker 0 has ended, and no element came for 5 s" in raw.failure.message
    assert raw.counters["elements"] == arrived.total()
    assert max(arrived.values()) <= times
    if policy == "off":  # the other worker's copy is whole
        assert len(arrived) == ELEMENTS
        assert ELEMENTS < arrived.total() < 2 * ELEMENTS
    lost = set(range(ELEMENTS)) - set(arrived)
    if policy == "data":  # the other worker's half is whole
        assert len({number % 2 for number in lost}) == 1
    if policy == "dynamic":  # what worker 0 had been given
        assert len({number // SPLIT for number in lost}) <= 3
        assert len(lost) <= sum(counts) - made - arrived.total() + 3 * SPLIT
    (death,) = watch.deaths
    assert (death["process"], death["how"]) == ("worker 0", "signal 9")
    assert [row["died"] for row in watch.worker_rows(True)] == [True, False]
    section = {"deaths": watch.deaths, "sharding": policy}
    (warning,) = death_warnings(section)
    assert service_module.PROMISES[policy] in warning["message"]


TEXT = """
from ipufeed import sources
def make_dataset():
    element = sources.synthetic((1000,), seconds=0.002)
    return element.map(lambda x: x + 1, name="add").batch(4)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    (folder / "dataset.py").write_text(TEXT)
    return folder


def command(folder, *options):
    done = children.run(
        [
            *(sys.executable, "-m", "ipufeed.benchmark", str(folder / "dataset.py")),
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=3 * DEADLOCK_S,
        check=False,
        cwd=ROOT,
        env=os.environ,
    )
    return done, " ".join(done.stderr.split())


@pytest.mark.process
def test_the_command_gives_each_worker_and_the_curve(folder):
    """Rates and CPU of each process, and the points of --scale, in JSON and summary."""
    done, words = command(
        folder, "--service", "local:1", "--scale", "0,1", "--seconds", "1.5"
    )
    result = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    service = result["service"]
    (worker,) = service["workers"]
    assert service["deaths"] == []
    assert worker["elements"] == service["produced_elements"]
    assert worker["elements"] >= service["delivered_elements"] > 0
    assert worker["elements_per_second"] > 0
    assert worker["cpu_seconds"] > 0
    assert worker["cpus_busy"] > 0
    assert [point["workers"] for point in service["scale"]] == [0, 1]
    assert [point["efficiency"] for point in service["scale"]] == [None, 1.0]
    assert result["dataset"]["samples_per_element"] == 4
    assert "no service" in words
    assert "worker 0" in words
    assert "efficiency 100%" in words


def test_what_calls_python_is_refused_before_anything_starts(tmp_path):
    """A Python function does not cross to another process; the message says what does."""
    generated = tf.data.Dataset.from_generator(
        lambda: iter([1]), output_signature=tf.TensorSpec([], tf.int32)
    )
    mapped = tf.data.Dataset.range(3).map(
        lambda x: tf.py_function(lambda y: y, [x], tf.int64)
    )
    inside = tf.data.Dataset.range(3).interleave(lambda _: mapped)

    for dataset in (generated, mapped, inside):
        with pytest.raises(
            ScaleOutError, match=r"calls a Python function.*--processes N"
        ):
            measure_service(dataset, service=ServiceSettings(service="local:1"))


def test_a_service_that_is_not_there_is_an_error_at_once():
    """TensorFlow would ask for an hour."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        target = f"grpc://localhost:{free.getsockname()[1]}"
    with pytest.raises(
        ScaleOutError, match=r"no server listens at grpc://localhost.*local:N"
    ):
        _check_reachable(target)


@pytest.mark.process
def test_a_process_that_cannot_start_is_quoted(monkeypatch):
    """Its last words are in the message, and nothing is left running."""
    monkeypatch.setattr("ipufeed.benchmark.scaleout.cluster.MODULE", "ipufeed.no_such")
    cluster = Cluster(1)
    with pytest.raises(
        ScaleOutError, match=r"the dispatcher ended with code 1.*no_such"
    ):
        cluster.__enter__()

    assert cluster.dispatcher is not None
    assert cluster.dispatcher.process.returncode is not None
