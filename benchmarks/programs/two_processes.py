"""What a collective between two processes costs, and a bare one of TensorFlow.

    python -m benchmarks.programs.two_processes

Starts two processes that run the same. Each repeat times the loop of ipufeed, and then as
many bare reductions of the same size between servers of their own. Prints a JSON object:
the seconds of a collective in each repeat, of both, by the number of bytes.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.feeds import seconds

COUNT = 2
REPEATS = 7
# Number of float32 elements -> collectives in one repeat.
SIZES = {1: 200, 1 << 20: 10}


def cluster(addresses: list[str], index: int) -> str:
    """Returns the TF_CONFIG of a process."""
    return json.dumps(
        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    )


def program(elements: int, count: int, reduces: bool) -> Callable[[], Any]:
    """Returns a loop of `count` steps on the IPU; each may sum over the processes."""
    import tensorflow as tf

    import ipufeed as ipu

    def body(x: Any) -> Any:
        x = x * 0.5 + 1.0
        return ipu.cross_replica_ops.cross_replica_sum(x) if reduces else x

    @tf.function(jit_compile=True)
    def run() -> Any:
        return ipu.loops.repeat(count, body, [tf.zeros([elements])])

    strategy = ipu.ipu_strategy.IPUStrategy()
    return lambda: tf.nest.map_structure(lambda x: x.numpy(), strategy.run(run))


def bare(server: Any, elements: int, count: int, index: int) -> Callable[[], Any]:
    """Returns a call of `count` reductions through a session of the server."""
    import numpy as np
    import tensorflow as tf

    with tf.Graph().as_default() as graph, tf.device(f"/job:worker/task:{index}"):
        value = tf.compat.v1.placeholder(tf.float32, [elements])
        result = tf.raw_ops.CollectiveReduce(
            input=value,
            group_size=COUNT,
            group_key=1,
            instance_key=elements,
            merge_op="Add",
            final_op="Id",
            subdiv_offsets=[0],
            communication_hint="ring",
        )
    config = session_config()
    config.device_filters.append(f"/job:worker/task:{index}")
    session = tf.compat.v1.Session(server.target, graph, config)
    call = session.make_callable(result, [value])
    data = np.zeros(elements, np.float32)

    def run() -> None:
        for _ in range(count):
            call(data)

    return run


def session_config() -> Any:
    """Returns the configuration of a session on the bare servers."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(device_count={"CPU": 1, "IPU": 0})
    config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
    return config


def measure(index: int, addresses: list[str]) -> None:
    """Measures in process `index`; the first COUNT addresses are those of ipufeed."""
    os.environ["TF_CONFIG"] = cluster(addresses[:COUNT], index)
    import tensorflow as tf

    import ipufeed as ipu

    config = ipu.IPUConfig()
    config.auto_select_ipus = 1
    config.experimental.multi_replica_distribution.process_count = COUNT
    config.experimental.multi_replica_distribution.process_index = index
    config.configure_ipu_system()
    server = tf.distribute.Server(
        {"worker": addresses[COUNT:]},
        job_name="worker",
        task_index=index,
        config=session_config(),
    )
    found = {}
    for elements, count in SIZES.items():
        reducing = program(elements, count, True)
        plain = program(elements, count, False)
        alone = bare(server, elements, count, index)
        for each in (reducing, plain, alone):
            each()  # compiles
        ours, theirs = [], []
        for _ in range(REPEATS):
            ours.append((seconds(reducing) - seconds(plain)) / count)
            theirs.append(seconds(alone) / count)
        found[4 * elements] = {"ipufeed": ours, "bare": theirs}
    print(json.dumps(found), flush=True)


def main() -> None:
    """Runs both processes, and prints what the first one does."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(2 * COUNT)]
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(index), *addresses],
            stdout=subprocess.PIPE,
        )
        for index in range(COUNT)
    ]
    found = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit("A process has failed.")
    sys.stdout.write(found[0].decode())


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(int(sys.argv[1]), sys.argv[2:])
    else:
        main()
