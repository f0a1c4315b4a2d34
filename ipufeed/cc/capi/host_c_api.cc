// The C entry points of calls of the host; ipufeed/ops/host_calls.py calls them.

#include <cstdint>

#include "capi/api.h"
#include "host/host_call.h"
#include "run/program.h"

// `function` is called on the threads of programs.
IPUFEED_API int ipufeed_set_on_host_call(ipufeed::OnHostCall function) {
  return ipufeed::entry(__func__, [&] { ipufeed::set_on_host_call(function); });
}

// 1 while the program with this number runs, once it has called such a function.
IPUFEED_API int ipufeed_program_runs(std::int64_t number) {
  return ipufeed::entry(__func__,
                        [&]() -> int { return ipufeed::program_runs(number); });
}
