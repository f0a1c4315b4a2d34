// The C entry points of programs' executables; ipufeed/executable/native.py calls them.

#include <cstdint>

#include "program_events.h"

#define IPUFEED_API extern "C" __attribute__((visibility("default")))

// `ask` is called on whatever thread compiles or runs a program.
IPUFEED_API void ipufeed_set_on_program(ipufeed::OnProgram ask) {
  ipufeed::set_on_program(ask);
}

// 0: programs run; 1: they give zeros; 2: they are refused.
IPUFEED_API void ipufeed_set_run_mode(int mode) {
  ipufeed::set_run_mode(static_cast<ipufeed::RunMode>(mode));
}

IPUFEED_API void ipufeed_forget_loaded() { ipufeed::forget_loaded(); }

IPUFEED_API void ipufeed_set_log_ops(int log) { ipufeed::set_log_ops(log != 0); }

// counts: loads, switches.
IPUFEED_API void ipufeed_take_op_loads(std::int64_t* counts) {
  ipufeed::take_op_loads(&counts[0], &counts[1]);
}
