// The call of an assertion in a compiled program. assert_lowering.cc puts it in.

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "xla/calls/names.h"
#include "xla/calls/xla_call.h"
#include "xla/ffi/api/ffi.h"

namespace ipufeed {
namespace {

ffi::Error assert_call(ffi::BufferR0<ffi::PRED> condition, ffi::BufferR0<ffi::U32>,
                       ffi::Result<ffi::BufferR0<ffi::U32>> next_token,
                       std::string_view hex) {
  return answer(kAssert, [&]() -> absl::Status {
    *next_token->typed_data() = 0;
    if (*condition.typed_data()) return absl::OkStatus();
    std::string text;
    // "x" precedes the digits: see host_calls.cc.
    if (hex.empty() || !absl::HexStringToBytes(hex.substr(1), &text)) {
      text = "An assertion failed.";
    }
    return absl::InternalError(text);
  });
}

XLA_FFI_DEFINE_HANDLER(kAssertHandler, assert_call,
                       ffi::Ffi::Bind()
                           .Arg<ffi::BufferR0<ffi::PRED>>()
                           .Arg<ffi::BufferR0<ffi::U32>>()
                           .Ret<ffi::BufferR0<ffi::U32>>()
                           .Attr<std::string_view>("text"));
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kAssert, "Host", kAssertHandler);

}  // namespace
}  // namespace ipufeed
