"""Child processes of the tests: Python programs that do not import TensorFlow again.

    test --Popen(), run()--> fork server --fork--> child: runs `-m module`, `-c code`
      |                      TensorFlow is           | or a script
      |                      imported, once          |
      +<---- wait(), kill(), communicate() ----------+

Importing TensorFlow takes 4 to 5 s of CPU; a fork takes some milliseconds. What is about
starting (the interpreter's flags, what is imported, sys.path) uses subprocess itself, and
so does Popen here by itself where a request differs from what a fork gives.

There is a server for each set of the variables that are read while TensorFlow is imported.
"""

import atexit
import ctypes
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).parent
SET_AT_START = (
    "PYTHON",
    "TF_CPP_",
    "TF_ENABLE_ONEDNN",
    "TF_USE_LEGACY",
    "KERAS_",
    "LD_",
)
# PYTHONPATH: a fork gets its own, see fork_server.py.
NOT_AT_START = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
OUR_FOLDERS = {str(HERE.parents[1]), str(HERE.parent), str(HERE)}
MOST_SERVERS = 4
# What our commands set it to while they import TensorFlow (_quiet_import.py).
LEVEL = "TF_CPP_MIN_LOG_LEVEL"
LEVELS = {"ipufeed.run": "1", "ipufeed.benchmark": "3", "ipufeed.executable": "3"}
PR_SET_CHILD_SUBREAPER = 36

_lock = threading.Lock()
_servers = {}


class Popen(subprocess.Popen):
    """As subprocess.Popen; Python programs are forked from a server where they can be."""

    def _execute_child(self, *arguments):
        bound = inspect.signature(super()._execute_child).bind(*arguments)
        asked = bound.arguments
        if not can_fork(asked):
            return super()._execute_child(*arguments)
        environment = dict(os.environ if asked["env"] is None else asked["env"])
        files = [
            number if number != -1 else inherited
            for number, inherited in (
                (asked["p2cread"], 0),
                (asked["c2pwrite"], 1),
                (asked["errwrite"], 2),
            )
        ]
        request = {
            "arguments": [os.fsdecode(each) for each in asked["args"][1:]],
            "environment": {str(k): os.fsdecode(v) for k, v in environment.items()},
            "folder": os.path.abspath(asked["cwd"] or os.getcwd()),
            "new_session": bool(asked["start_new_session"]),
            "ignores_interrupts": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
        }
        with _lock:
            self.pid = server_for(at_start(request)).fork(request, files)
        self._child_created = True
        self._close_pipe_fds(
            asked["p2cread"],
            asked["p2cwrite"],
            asked["c2pread"],
            asked["c2pwrite"],
            asked["errread"],
            asked["errwrite"],
        )
        return None


def run(*arguments, capture_output=False, timeout=None, check=False, **others):
    """As subprocess.run, with the Popen above."""
    given = others.pop("input", None)
    if capture_output:
        others |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if given is not None:
        others["stdin"] = subprocess.PIPE
    with Popen(*arguments, **others) as process:
        try:
            stdout, stderr = process.communicate(given, timeout=timeout)
        except BaseException as error:
            process.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                error.stdout, error.stderr = process.communicate()
            process.wait()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)
    if check:
        done.check_returncode()
    return done


def can_fork(asked):
    """Whether a fork gives what a new interpreter gives."""
    arguments = asked["args"]
    return (
        not asked["shell"]
        and not isinstance(arguments, (str, bytes, os.PathLike))
        and len(arguments) > 1
        and arguments[0] == sys.executable
        and (arguments[1] in ("-m", "-c") or not str(arguments[1]).startswith("-"))
        and asked["preexec_fn"] is None
        and not asked["pass_fds"]
        and asked["executable"] is None
        and asked["close_fds"]
        and asked["process_group"] in (None, -1)
        and asked["umask"] == -1
        and same_start(asked["env"])
    )


def same_start(environment):
    """Whether the child hashes like this process, and finds the same TensorFlow.

    Paths of this project may differ. Any other folder could hide what the server has
    imported.
    """
    if environment is None:
        return True
    name = "PYTHONHASHSEED"
    differ = search_path(environment) ^ search_path(os.environ)
    return environment.get(name) == os.environ.get(name) and differ <= OUR_FOLDERS


def search_path(environment):
    """Returns the folders of PYTHONPATH."""
    given = environment.get("PYTHONPATH")
    return (
        {os.path.abspath(each) for each in given.split(os.pathsep)} if given else set()
    )


def at_start(request):
    """Returns the variables that are read while TensorFlow is imported."""
    found = {
        name: value
        for name, value in request["environment"].items()
        if name.startswith(SET_AT_START) and name not in NOT_AT_START
    }
    kind, name = (*request["arguments"], "")[:2]
    if kind == "-m" and name in LEVELS:
        found.setdefault(LEVEL, LEVELS[name])
    return found


def server_for(variables):
    key = tuple(sorted(variables.items()))
    if key not in _servers:
        if len(_servers) == MOST_SERVERS:
            raise RuntimeError(
                f"the tests start programs with more than {MOST_SERVERS} sets of "
                f"start-up variables: {[*_servers, key]}"
            )
        _servers[key] = Server(variables)
    return _servers[key]


# NumPy's library starts a thread on two CPUs, and so does the allocator of pyarrow, which
# TensorFlow's Keras imports where pandas is installed.
ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


class Server:
    """A process that has imported TensorFlow and forks programs."""

    def __init__(self, variables):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(SET_AT_START)
        }
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        code = f"import fork_server; fork_server.main({other.fileno()})"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            cwd=HERE,
            env={**inherited, **variables, **ONE_THREAD},
        )
        other.close()
        self._connection = own
        atexit.register(self.close)
        self._expect_ready()

    def _expect_ready(self):
        if self._connection.recv(64) != b"ready":
            self._log.seek(0)
            log = self._log.read().decode()
            raise RuntimeError(f"the fork server of the tests has not started: {log}")

    def fork(self, request, files):
        """Starts the program; returns its process id."""
        socket.send_fds(self._connection, [json.dumps(request).encode()], files)
        answer = self._connection.recv(256)
        if not answer.isdigit():
            raise RuntimeError(answer.decode() or "the fork server of the tests ended")
        return int(answer)

    def close(self):
        self._connection.close()
        self._process.wait()
        self._log.close()
