// The C entry points of programs' executables; ipufeed/executable/program/events.py
// calls them.

#include <cstdint>
#include <string>
#include <string_view>

#include "capi/api.h"
#include "device/program_events.h"
#include "run/detached_work.h"
#include "run/device_config.h"
#include "xla/clusters/clusters.h"
#include "xla/compile/canonical.h"
#include "xla/compile/compiler.h"
#include "xla/compile/hlo_text.h"

namespace ipufeed {
namespace {

// Gets a text, or bytes; `ok` is 0 for the text of an error.
using Take = void (*)(int ok, const char* bytes, std::int64_t size);

void give(const absl::StatusOr<std::string>& found, Take take) {
  const std::string_view text = found.ok() ? *found : found.status().message();
  take(found.ok() ? 1 : 0, text.data(), static_cast<std::int64_t>(text.size()));
}

}  // namespace
}  // namespace ipufeed

// `ask` is called on whatever thread compiles or runs a program.
IPUFEED_API int ipufeed_set_on_program(ipufeed::OnProgram ask) {
  return ipufeed::entry(__func__, [&] { ipufeed::set_on_program(ask); });
}

// 0: programs run; 1: they give zeros; 2: they are refused.
IPUFEED_API int ipufeed_set_run_mode(int mode) {
  return ipufeed::entry(
      __func__, {{"mode", mode >= 0 && mode <= 2, "must be 0, 1 or 2"}},
      [&] { ipufeed::set_run_mode(static_cast<ipufeed::RunMode>(mode)); });
}

IPUFEED_API int ipufeed_forget_loaded() {
  return ipufeed::entry(__func__, [&] { ipufeed::forget_loaded(); });
}

// XLA's compilations that run now: see detached_work.h.
IPUFEED_API int ipufeed_detached_work() { return ipufeed::detached_work(); }

// Also those that only this process's memory has: see compiler.h.
IPUFEED_API int ipufeed_forget_programs() {
  return ipufeed::entry(__func__, [&] { ipufeed::forget_programs(); });
}

// Whether graphs without ipu_compiler.compile are compiled as a whole: see clusters.h.
IPUFEED_API int ipufeed_set_compiles_graphs(int compiles) {
  return ipufeed::entry(__func__, [&] { ipufeed::set_compiles_graphs(compiles != 0); });
}

IPUFEED_API int ipufeed_set_log_ops(int log) {
  return ipufeed::entry(__func__, [&] { ipufeed::set_log_ops(log != 0); });
}

// counts: loads, switches.
IPUFEED_API int ipufeed_take_op_loads(std::int64_t* counts) {
  return ipufeed::entry(__func__, {ipufeed::given("counts", counts)},
                        [&] { ipufeed::take_op_loads(&counts[0], &counts[1]); });
}

// See canonical.h. `take` is called once, on this thread, before this returns.
IPUFEED_API int ipufeed_canonical(const char* hlo, std::int64_t size,
                                  ipufeed::Take take) {
  return ipufeed::entry(
      __func__,
      {ipufeed::given("hlo", hlo, size), {"take", take != nullptr, "must not be null"}},
      [&] {
        const std::string_view bytes(hlo, static_cast<std::size_t>(size));
        ipufeed::give(ipufeed::canonical_bytes(bytes), take);
      });
}

// See hlo_text.h. `take`: likewise.
IPUFEED_API int ipufeed_hlo_text(const char* bytes, std::int64_t size, int as_dot,
                                 ipufeed::Take take) {
  return ipufeed::entry(__func__,
                        {ipufeed::given("bytes", bytes, size),
                         {"take", take != nullptr, "must not be null"}},
                        [&] {
                          const std::string module(bytes,
                                                   static_cast<std::size_t>(size));
                          ipufeed::give(ipufeed::hlo_text(module, as_dot != 0), take);
                        });
}
