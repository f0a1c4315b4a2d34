"""Forks Python programs that find TensorFlow already imported; see children.py.

Started as `python -c "import fork_server; fork_server.main(N)"` with the end of a socket
pair as file descriptor N. Each request is one message: JSON, with stdin, stdout and
stderr as descriptors with it. The answer is the child's process id.

A child is forked twice, so that it is the child of the process that has asked (a
subreaper, see children.py). The server has one thread when it forks: that is checked each
time. The native library is not loaded here, since what it registers for the end of a
process is for that process alone.
"""

import io
import json
import os
import runpy
import signal
import socket
import sys
import time

REQUEST_BYTES = 1 << 20
COLLECT_AFTER = (10_000, 20, 50)  # as in the workers, see shared.py


def main(number):
    """Serves requests until the other end closes; in a child, runs its program."""
    connection = socket.socket(fileno=number)
    import_once()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program's, not the server's
    connection.send(b"ready")
    while True:
        message, files, *_ = socket.recv_fds(connection, REQUEST_BYTES, 3)
        if not message:
            os._exit(0)
        request = json.loads(message)
        own = len(os.listdir("/proc/self/task"))
        if own != 1:
            connection.send(f"the fork server has {own} threads".encode())
            continue
        read, write = os.pipe()
        between = os.fork()
        if between == 0:
            parent = os.getpid()
            child = os.fork()
            if child:
                os.write(write, str(child).encode())
                os._exit(0)
            while os.getppid() == parent:
                time.sleep(0.0005)
            for each in (read, write):
                os.close(each)
            connection.close()
            become(request, files)
            return play(request["arguments"])
        os.waitpid(between, 0)
        connection.send(os.read(read, 32))
        for each in (read, write, *files):
            os.close(each)


def import_once():
    """Imports what nearly every program imports, and what starts no thread.

    Not ipufeed: it would load its library, and what that does at the end of a process
    would be the server's to do.
    """
    import ctypes
    import gc

    gc.disable()  # a sixth of what the import takes
    import numpy as np
    import tensorflow as tf

    del np, tf
    gc.collect()
    # A child that ends would free all that is there, and for that copy its pages: 0.07 s
    # of CPU. What the child makes itself is freed as in any process.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(gc.get_objects()))
    gc.freeze()  # a collection in a child then copies no pages
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()


def become(request, files):
    """Makes this process what the interpreter makes of a new one."""
    for target, file in enumerate(files):
        os.dup2(file, target)
    for file in files:
        os.close(file)
    if request["new_session"]:
        os.setsid()
    os.chdir(request["folder"])
    inherited = search_path()
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[1 : 1 + len(inherited)] = search_path()
    time.tzset()
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if not request["ignores_interrupts"]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = io.TextIOWrapper(
        io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8"
    )
    sys.stdout = writer(1, unbuffered, "strict")
    sys.stderr = writer(2, unbuffered, "backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.excepthook = without_own_frames(sys.excepthook)
    np = sys.modules["numpy"]
    np.random.seed()


def search_path():
    """What the interpreter puts into sys.path for PYTHONPATH, behind the first entry."""
    given = os.environ.get("PYTHONPATH")
    if not given:
        return []
    return list(dict.fromkeys(map(os.path.abspath, given.split(os.pathsep))))


def writer(number, unbuffered, errors):
    raw = io.FileIO(number, "wb", closefd=False)
    return io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        encoding="utf-8",
        errors=errors,
        line_buffering=number == 2 or os.isatty(number),
        write_through=unbuffered,
    )


def without_own_frames(show):
    """An excepthook that leaves out the frames between the interpreter and the program."""

    def hook(kind, error, frames):
        found = frames
        while found is not None and found.tb_frame.f_code.co_filename != __file__:
            found = found.tb_next
        while found is not None and found.tb_frame.f_code.co_filename == __file__:
            found = found.tb_next
        found = found or frames
        show(kind, error.with_traceback(found), found)

    return hook


def play(arguments):
    """Runs a program as `python ARGUMENTS` does."""
    main_module = sys.modules["__main__"].__dict__
    main_module.clear()
    main_module.update(__name__="__main__", __builtins__=sys.modules["builtins"])
    sys.orig_argv = [sys.executable, *arguments]
    what, *others = arguments
    if what == "-m":
        name, *others = others
        sys.argv = ["-m", *others]
        sys.path[0] = os.getcwd()
        runpy._run_module_as_main(name)
    elif what == "-c":
        code, *others = others
        sys.argv = ["-c", *others]
        sys.path[0] = ""
        exec(compile(code, "<string>", "exec"), main_module)
    else:
        sys.argv = [what, *others]
        sys.path[0] = os.path.dirname(os.path.realpath(what))
        main_module["__file__"] = path = os.path.abspath(what)
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec")
        exec(code, main_module)
