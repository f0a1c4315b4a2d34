"""Calls each C entry point with wrong arguments: a line on stdout for each call.

    {"begins": NAME}                      before the calls of one
    {"name": NAME, "arguments": TEXT, "must": ..., "got": a number or [error, its text]}

A number must come where an unknown handle is an answer (as documented in ipufeed/cc/capi),
and WRONG where an argument is refused. Signals and hangs end the process: the last name
that begins is the cause.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import sys
import threading
from typing import Any

WRONG = "InvalidArgumentError"
ENDLESS = "waits"  # without an end: only the end of its process ends it
HANG_S = 60.0

NONE, NUMBER = 0, 10**12  # handles of nothing
MOST, LEAST = 2**63 - 1, -(2**63)
INT_MOST, INT_LEAST = 2**31 - 1, -(2**31)
FEED = 770077  # an outfeed that is there
TEN = (ctypes.c_int64 * 10)()
TAKE = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_int64
)(lambda ok, text, size: None)


def calls(must: Any, *arguments: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Each of these is called, with one tuple or one value of arguments."""
    return [(each if isinstance(each, tuple) else (each,), must) for each in arguments]


HANDLES = (NONE, NUMBER, -1, MOST, LEAST)
INTS = (-1, INT_MOST, INT_LEAST)
OF_NONE = calls(0, *HANDLES)
NO_ARGUMENTS = calls(0, ())
FLAGS = calls(0, INT_MOST, INT_LEAST, 0)

# In the order of the calls. What an entry point leaves behind is undone by its last call.
CASES: dict[str, list[tuple[tuple[Any, ...], Any]]] = {
    "ipufeed_last_error": calls(None, (None, 100), (None, -1), (b"", 0), (b"", LEAST)),
    "ipufeed_fault_counts": calls(0, (None, 100), (b"", 0), (b"", -5), (None, MOST)),
    "ipufeed_set_fault": [
        *calls(WRONG, (None, 1, 0), (b"x", 1, 5), (b"x", 1, -1), (b"x", 1, INT_MOST)),
        *calls(0, (b"nowhere", MOST, 2), (b"nowhere", LEAST, 2), (b"", 0, 0)),
    ],
    "ipufeed_run_new": calls(1, ()),
    "ipufeed_run_progress": [
        *calls(1, *((each, TEN) for each in HANDLES)),
        *calls(WRONG, (1, None), (NUMBER, None)),
    ],
    "ipufeed_run_stop": OF_NONE,
    "ipufeed_run_end_pass": calls(0, (1, LEAST), *((each, MOST) for each in HANDLES)),
    "ipufeed_run_end_source": OF_NONE,
    "ipufeed_run_is_over": calls(1, *HANDLES),
    "ipufeed_run_results_read": calls(0, 1, *HANDLES),
    "ipufeed_run_free": [*calls(0, 1, 1), *OF_NONE],  # 1: twice
    "ipufeed_live_feeders": NO_ARGUMENTS,
    "ipufeed_usable_cpus": calls(None, ()),
    "ipufeed_probes_new": [
        *calls(WRONG, -1, LEAST, MOST, 2**16 + 1),
        *calls(1, 0),
        *calls(2, 2),
    ],
    "ipufeed_probe_read": [
        *calls(0, (2, 1, TEN)),
        *calls(1, (2, 2, TEN), (2, -1, TEN), (2, MOST, TEN), (2, LEAST, TEN)),
        *calls(1, (1, 0, TEN), *((each, 0, TEN) for each in HANDLES)),
        *calls(WRONG, (2, 1, None), (NUMBER, 0, None)),
    ],
    "ipufeed_probes_free": [*calls(0, 1, 2, 2), *OF_NONE],
    "ipufeed_name_infeed": [
        *calls(WRONG, (NUMBER, None)),
        *calls(0, (NUMBER, b""), (LEAST, b"\xff\xfe" * 1000)),
    ],
    "ipufeed_infeed_stats": [
        *calls(1, *((each, TEN) for each in HANDLES)),
        *calls(WRONG, (NUMBER, None)),
    ],
    "ipufeed_infeed_begin": calls(1, *HANDLES),
    "ipufeed_infeed_serves": calls(1, *HANDLES),
    "ipufeed_infeed_delete": calls(1, *HANDLES),
    "ipufeed_infeed_forget": OF_NONE,
    "ipufeed_outfeed_new": [
        *calls(WRONG, (FEED, None, 0, 4, 0)),
        *calls(WRONG, *((FEED, b"q", 0, 4, each) for each in (*INTS, 16))),
        *calls(WRONG, *((FEED, b"q", 0, each, 0) for each in (0, -1, MOST, LEAST))),
        *calls(WRONG, (FEED, b"q", 0, 2**16 + 1, 0)),
        *calls(0, (FEED, b"q", 0, 4, 0), (FEED, b"again", INT_LEAST, 4, 15)),
    ],
    "ipufeed_outfeed_stats": [
        *calls(0, (FEED, TEN)),
        *calls(1, *((each, TEN) for each in HANDLES)),
        *calls(WRONG, (FEED, None), (NUMBER, None)),
    ],
    "ipufeed_outfeed_id": OF_NONE,
    "ipufeed_outfeed_runs": OF_NONE,
    "ipufeed_outfeed_ends": OF_NONE,
    "ipufeed_outfeed_wait": [
        *calls(2, *((each, 0, MOST) for each in HANDLES)),
        *calls(0, (FEED, 0, 0), (FEED, 0, -1), (FEED, 0, LEAST)),
        *calls(1, (FEED, -1, MOST), (FEED, MOST, MOST)),  # another number of ends
    ],
    "ipufeed_outfeed_signature": [
        *calls(0, (FEED, TEN, 10), (FEED, None, 0), (NUMBER, TEN, MOST)),
        *calls(WRONG, (FEED, None, 10), (FEED, TEN, -1), (FEED, TEN, LEAST)),
    ],
    "ipufeed_outfeed_take": [
        *calls(2, *((each, 0, 0, 0, MOST, TEN, 10) for each in HANDLES)),
        *calls(0, *((FEED, how, 0, 0, LEAST, TEN, 10) for how in (0, 1))),
        *calls(0, (FEED, 1, 0, 0, MOST, None, 0)),
        *calls(1, (FEED, 0, 0, -1, MOST, TEN, 10)),  # another number of ends
        *calls(4, *((FEED, how, MOST, 0, MOST, TEN, 10) for how in range(3))),
        *calls(WRONG, *((FEED, how, 0, 0, 0, TEN, 10) for how in (-1, 3, MOST))),
        *calls(WRONG, (FEED, 0, 0, 0, 0, None, 10), (FEED, 0, 0, 0, 0, TEN, -1)),
    ],
    "ipufeed_outfeed_replicas": calls(1, *HANDLES, FEED),
    "ipufeed_free_tensor": calls(WRONG, (None,)),
    "ipufeed_outfeed_busy": OF_NONE,
    "ipufeed_outfeed_wait_for_all": [
        *calls(1, *((each, 0, MOST) for each in (*HANDLES, FEED))),
        *calls(1, *((NUMBER, each, LEAST) for each in INTS)),
    ],
    "ipufeed_wait_idle": calls(1, *((each, MOST) for each in INTS), (0, LEAST)),
    "ipufeed_outfeed_delete": calls(0, FEED, FEED, *HANDLES),
    "ipufeed_outfeed_forget": calls(0, FEED, FEED, *HANDLES),
    "ipufeed_table_sizes": [*calls(0, (TEN,)), *calls(WRONG, (None,))],
    "ipufeed_set_stall_report_ns": [*calls(WRONG, -1, LEAST), *calls(0, MOST, 0)],
    "ipufeed_set_outfeed_limit_bytes": [
        *calls(WRONG, -1, LEAST),
        *calls(0, MOST, 0, 4 << 30),
    ],
    "ipufeed_last_program": NO_ARGUMENTS,
    "ipufeed_end_eager_programs": OF_NONE,
    "ipufeed_stop_programs": [*calls(WRONG, (None,)), *calls(0, b"", b"\xff" * 1000)],
    "ipufeed_stop_programs_until": [
        *calls(WRONG, (None, MOST)),
        *calls(0, (b"", LEAST), (b"\xff" * 1000, 0)),
    ],
    "ipufeed_wait_for_interrupt": [*calls(WRONG, (None,)), *calls(ENDLESS, (TEN,))],
    "ipufeed_next_line": [
        *calls(WRONG, (None, 100), (b"", 0), (b"", -1), (b"", LEAST)),
        *calls(ENDLESS, (b" " * 100, 100)),
    ],
    "ipufeed_main_thread_calls": FLAGS,
    "ipufeed_set_on_first_use": calls(0, (None,)),
    "ipufeed_set_log_cycle_count": FLAGS,
    "ipufeed_forget_first_uses": NO_ARGUMENTS,
    "ipufeed_set_processes": [
        *calls(WRONG, (0, 0, TAKE), (-1, -2, TAKE), (2, 2, TAKE), (2, -1, TAKE)),
        *calls(WRONG, (INT_LEAST, INT_MOST, TAKE)),
        *calls(0, (INT_LEAST, INT_MOST, None), (1, 0, None)),
    ],
    "ipufeed_last_collective_run_failed": NO_ARGUMENTS,
    "ipufeed_set_ipus": [
        *calls(WRONG, *((each, 1) for each in (*INTS, 16))),
        *calls(WRONG, *((0, each) for each in (*INTS, 1025))),
        *calls(0, (15, 1024), (15, 0)),
    ],
    "ipufeed_ipus": calls(1, *INTS, 16, 0),
    "ipufeed_set_seed": [
        *calls(WRONG, *((each, 1, 0) for each in (*INTS, 16))),
        *calls(0, (15, LEAST, INT_LEAST), (0, MOST, INT_MOST)),
    ],
    "ipufeed_forget_seeds": NO_ARGUMENTS,
    "ipufeed_set_synthetic_seed": FLAGS,
    "ipufeed_set_on_program": calls(0, (None,)),
    "ipufeed_set_on_host_call": calls(0, (None,)),
    "ipufeed_set_on_read": calls(0, (None,)),
    "ipufeed_program_runs": OF_NONE,
    "ipufeed_set_run_mode": [*calls(WRONG, *INTS, 3), *calls(0, 2, 0)],
    "ipufeed_forget_loaded": NO_ARGUMENTS,
    "ipufeed_detached_work": NO_ARGUMENTS,
    "ipufeed_forget_programs": NO_ARGUMENTS,
    "ipufeed_set_compiles_graphs": FLAGS,
    "ipufeed_set_log_ops": FLAGS,
    "ipufeed_take_op_loads": [*calls(0, (TEN,)), *calls(WRONG, (None,))],
    "ipufeed_canonical": [
        *calls(WRONG, (None, 5, TAKE), (b"", -1, TAKE), (b"", LEAST, TAKE)),
        *calls(WRONG, (b"abc", 3, None)),
        *calls(0, (b"\xff" * 64, 64, TAKE), (None, 0, TAKE), (b"", 0, TAKE)),
    ],
    "ipufeed_hlo_text": [
        *calls(WRONG, (None, 5, 0, TAKE), (b"", -1, 0, TAKE), (b"", LEAST, 1, TAKE)),
        *calls(WRONG, (b"abc", 3, INT_LEAST, None)),
        *calls(0, (b"\xff" * 64, 64, 0, TAKE), (b"", 0, INT_MOST, TAKE)),
        *calls(0, (None, 0, 0, TAKE)),
    ],
    "ipufeed_trace_start": [
        *calls(WRONG, -1, LEAST),
        *calls(1, MOST),  # room comes as events do
        *calls(0, 64),  # one is running
    ],
    "ipufeed_trace_stop": [
        *calls(WRONG, (None,)),
        *calls(None, (TEN,)),
        *calls(0, TEN),
    ],
    "ipufeed_trace_take": [
        *calls(WRONG, (None, 1), (TEN, -1), (TEN, LEAST), (None, MOST)),
        *calls(0, (None, 0)),
    ],
    "ipufeed_trace_name": [
        *calls(WRONG, (0, 0, None, 8), (0, 0, b"1", -1), (0, 0, b"1", LEAST)),
        *calls(0, *((each, LEAST, b"12345678", 8) for each in INTS), (0, 0, None, 0)),
    ],
    "ipufeed_count_elements_at": calls(0, (None,)),
    "ipufeed_scan_records": [
        *calls(WRONG, (None, b"", 0), (None, None, 8)),
        *calls(WRONG, ((ctypes.c_int64 * 13)(), None, 8)),
        *calls(WRONG, ((ctypes.c_int64 * 13)(), b"", -1)),
        *calls(WRONG, ((ctypes.c_int64 * 13)(), b"", LEAST)),
    ],
    "ipufeed_leave_statics": NO_ARGUMENTS,
    # The two that no other may follow.
    "ipufeed_forget_feeders_of_parent": NO_ARGUMENTS,
    "ipufeed_stop_all": [*calls(WRONG, -1, LEAST, MOST), *calls(0, 0)],
}


def run(name: str, arguments: tuple[Any, ...], must: Any) -> Any:
    """The result of a call, or the error and its text."""
    from ipufeed import _native
    from ipufeed._entry_points import ON_FIRST_USE

    function = getattr(_native.entry(), name)
    values = [
        ctypes.create_string_buffer(each, len(each) + 1)
        if isinstance(each, bytes) and kind is ctypes.c_void_p
        else ctypes.cast(each, kind)
        if isinstance(each, ctypes._CFuncPtr) and kind is ctypes.c_void_p
        else each
        for each, kind in zip(arguments, function.argtypes, strict=True)
    ]
    if name == "ipufeed_set_on_first_use":
        values = [ON_FIRST_USE()]  # a null pointer of this type
    if must == ENDLESS:
        threading.Thread(target=function, args=values, daemon=True).start()
        return ENDLESS
    try:
        return function(*values)
    except Exception as error:
        return type(error).__name__, str(error)


def put(line: dict[str, Any]) -> None:
    """Writes a line, which is there even if the process ends next."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    faulthandler.enable()
    import ipufeed  # noqa: F401

    for name, cases in CASES.items():
        put({"begins": name})
        for arguments, must in cases:
            faulthandler.dump_traceback_later(HANG_S, exit=True)
            got = run(name, arguments, must)
            line = {"name": name, "arguments": repr(arguments), "must": must}
            put({**line, "got": got})
    faulthandler.cancel_dump_traceback_later()
    put({"begins": "the end of the process"})


if __name__ == "__main__":
    main()
