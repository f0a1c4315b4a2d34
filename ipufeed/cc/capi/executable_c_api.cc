// The C entry points of programs' executables; ipufeed/executable/native.py calls them.

#include <cstdint>

#include "capi/api.h"
#include "device/program_events.h"

// `ask` is called on whatever thread compiles or runs a program.
IPUFEED_API int ipufeed_set_on_program(ipufeed::OnProgram ask) {
  return ipufeed::entry(__func__, [&] { ipufeed::set_on_program(ask); });
}

// 0: programs run; 1: they give zeros; 2: they are refused.
IPUFEED_API int ipufeed_set_run_mode(int mode) {
  return ipufeed::entry(
      __func__, [&] { ipufeed::set_run_mode(static_cast<ipufeed::RunMode>(mode)); });
}

IPUFEED_API int ipufeed_forget_loaded() {
  return ipufeed::entry(__func__, [&] { ipufeed::forget_loaded(); });
}

IPUFEED_API int ipufeed_set_log_ops(int log) {
  return ipufeed::entry(__func__, [&] { ipufeed::set_log_ops(log != 0); });
}

// counts: loads, switches.
IPUFEED_API int ipufeed_take_op_loads(std::int64_t* counts) {
  return ipufeed::entry(__func__,
                        [&] { ipufeed::take_op_loads(&counts[0], &counts[1]); });
}
