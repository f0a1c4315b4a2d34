// The C entry point of calls of the host; ipufeed/ops/host_calls.py calls it.

#include "capi/api.h"
#include "host/host_call.h"

// `function` is called on the threads of programs.
IPUFEED_API int ipufeed_set_on_host_call(ipufeed::OnHostCall function) {
  return ipufeed::entry(__func__, [&] { ipufeed::set_on_host_call(function); });
}
