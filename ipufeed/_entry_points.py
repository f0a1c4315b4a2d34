"""Names, arguments and results of the C functions in ipufeed/cc/capi, for ctypes.

The files there document them; both lists must agree.
"""

from __future__ import annotations

import ctypes

INT64, INT32 = ctypes.c_int64, ctypes.c_int
# int (*)(int ordinal, char* message, int size)
ON_FIRST_USE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_int
)


class Unchecked(ctypes.c_int64):
    """A number that no Python code checks, for functions called once per result."""


TEXT, NUMBERS = ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64)
ENTRY_POINTS: tuple[tuple[str, list[type], type], ...] = (
    ("ipufeed_run_new", [], INT64),
    ("ipufeed_run_free", [INT64], INT32),
    ("ipufeed_run_stop", [INT64], INT32),
    ("ipufeed_run_progress", [INT64, NUMBERS], INT32),
    ("ipufeed_run_end_pass", [INT64, INT64], INT32),
    ("ipufeed_run_end_source", [INT64], INT32),
    ("ipufeed_run_is_over", [INT64], INT32),
    ("ipufeed_run_results_read", [INT64], INT64),
    ("ipufeed_live_feeders", [], INT32),
    ("ipufeed_forget_feeders_of_parent", [], INT32),
    ("ipufeed_stop_all", [INT64], INT32),
    ("ipufeed_leave_statics", [], INT32),
    ("ipufeed_usable_cpus", [], INT32),
    ("ipufeed_probes_new", [INT64], INT64),
    ("ipufeed_probes_free", [INT64], INT32),
    ("ipufeed_probe_read", [INT64, INT64, NUMBERS], INT32),
    # guard_c_api.cc
    ("ipufeed_last_error", [TEXT, INT64], INT32),
    ("ipufeed_set_fault", [TEXT, INT64, INT32], INT32),
    ("ipufeed_fault_counts", [TEXT, INT64], INT32),
    # feeds_c_api.cc
    ("ipufeed_name_infeed", [INT64, TEXT], INT32),
    ("ipufeed_outfeed_new", [INT64, TEXT, INT32, INT64, INT32], INT32),
    ("ipufeed_infeed_stats", [INT64, NUMBERS], INT32),
    ("ipufeed_outfeed_stats", [INT64, NUMBERS], INT32),
    ("ipufeed_outfeed_id", [INT64], INT64),
    ("ipufeed_outfeed_runs", [INT64], INT64),
    ("ipufeed_outfeed_ends", [INT64], INT64),
    ("ipufeed_outfeed_wait", [Unchecked] * 3, INT32),
    ("ipufeed_outfeed_signature", [INT64, ctypes.c_void_p, INT64], INT64),
    ("ipufeed_outfeed_take", [*[Unchecked] * 5, ctypes.c_void_p, Unchecked], INT32),
    ("ipufeed_outfeed_replicas", [INT64], INT32),
    ("ipufeed_free_tensor", [ctypes.c_void_p], INT32),
    ("ipufeed_outfeed_busy", [INT64], INT32),
    ("ipufeed_outfeed_wait_for_all", [INT64, INT32, INT64], INT32),
    ("ipufeed_wait_idle", [INT32, INT64], INT32),
    ("ipufeed_infeed_begin", [INT64], INT32),
    ("ipufeed_infeed_serves", [INT64], INT32),
    ("ipufeed_infeed_delete", [INT64], INT32),
    ("ipufeed_outfeed_delete", [INT64], INT32),
    ("ipufeed_infeed_forget", [INT64], INT32),
    ("ipufeed_outfeed_forget", [INT64], INT32),
    ("ipufeed_table_sizes", [NUMBERS], INT32),
    ("ipufeed_set_stall_report_ns", [INT64], INT32),
    ("ipufeed_set_outfeed_limit_bytes", [INT64], INT32),
    ("ipufeed_last_program", [], INT64),
    ("ipufeed_end_eager_programs", [INT64], INT32),
    ("ipufeed_stop_programs", [TEXT], INT32),
    ("ipufeed_stop_programs_until", [TEXT, INT64], INT32),
    ("ipufeed_wait_for_interrupt", [NUMBERS], INT32),
    ("ipufeed_next_line", [TEXT, INT64], INT32),
    ("ipufeed_main_thread_calls", [INT32], INT32),
    ("ipufeed_set_on_first_use", [ON_FIRST_USE], INT32),
    ("ipufeed_set_log_cycle_count", [INT32], INT32),
    ("ipufeed_forget_first_uses", [], INT32),
    # parallel/collectives/joining.py has the callback's type
    ("ipufeed_set_processes", [INT32, INT32, ctypes.c_void_p], INT32),
    ("ipufeed_last_collective_run_failed", [], INT32),
    ("ipufeed_set_ipus", [INT32, INT32], INT32),
    ("ipufeed_ipus", [INT32], INT32),
    ("ipufeed_set_seed", [INT32, INT64, INT32], INT32),
    ("ipufeed_forget_seeds", [], INT32),
    ("ipufeed_set_synthetic_seed", [INT32], INT32),
    # executable_c_api.cc; executable/program/events.py has the callback's type
    ("ipufeed_set_on_program", [ctypes.c_void_p], INT32),
    # host_c_api.cc; ops/host_calls.py has the callback's type
    ("ipufeed_set_on_host_call", [ctypes.c_void_p], INT32),
    ("ipufeed_program_runs", [INT64], INT32),
    ("ipufeed_set_run_mode", [INT32], INT32),
    ("ipufeed_forget_loaded", [], INT32),
    ("ipufeed_detached_work", [], INT32),
    ("ipufeed_forget_programs", [], INT32),
    ("ipufeed_set_compiles_graphs", [INT32], INT32),
    ("ipufeed_set_log_ops", [INT32], INT32),
    ("ipufeed_take_op_loads", [NUMBERS], INT32),
    # executable/hlo/text.py has the type of `take`
    ("ipufeed_canonical", [TEXT, INT64, ctypes.c_void_p], INT32),
    ("ipufeed_hlo_text", [TEXT, INT64, INT32, ctypes.c_void_p], INT32),
    # trace_c_api.cc
    ("ipufeed_trace_start", [INT64], INT32),
    ("ipufeed_trace_stop", [NUMBERS], INT64),
    ("ipufeed_trace_take", [ctypes.c_void_p, INT64], INT64),
    ("ipufeed_trace_name", [INT32, INT64, TEXT, INT64], INT32),
    # datasets_c_api.cc; sources/record_scan.py has the struct
    ("ipufeed_count_elements_at", [ctypes.c_void_p], INT32),
    ("ipufeed_scan_records", [ctypes.c_void_p, ctypes.c_void_p, INT64], INT64),
    # sources/loaders/python_elements.py has the callback's type
    ("ipufeed_set_on_read", [ctypes.c_void_p], INT32),
)
