// The calls of the host, as a compiled program makes them. host_lowering.cc puts them
// in.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "host/host_call.h"
#include "run/program.h"
#include "xla/calls/names.h"
#include "xla/calls/xla_call.h"
#include "xla/calls/xla_types.h"
#include "xla/ffi/api/ffi.h"

namespace ipufeed {
namespace {

void add_buffer(const ffi::AnyBuffer& buffer, HostTensors* tensors) {
  const auto dimensions = buffer.dimensions();
  tensors->add(to_tensorflow(buffer.element_type()),
               std::vector<std::int64_t>(dimensions.begin(), dimensions.end()),
               buffer.untyped_data());
}

absl::Status host(const ffi::RemainingArgs& args, ffi::RemainingRets& results,
                  std::string_view kind, std::string_view hex, std::int64_t o) {
  HostTensors inputs;
  HostTensors outputs;
  for (std::size_t i = 0; i + 1 < args.size(); ++i) {
    const auto value = args.get<ffi::AnyBuffer>(i);
    if (!value.has_value()) return absl::InternalError("a call without its operand.");
    add_buffer(*value, &inputs);
  }
  for (std::size_t i = 0; i + 1 < results.size(); ++i) {
    auto result = results.get<ffi::AnyBuffer>(i);
    if (!result.has_value()) return absl::InternalError("a call without its result.");
    add_buffer(**result, &outputs);
  }
  write_token(results, results.size() - 1);
  const std::string name(kind);
  // "x" precedes the text's bytes, since XLA takes an empty text for none.
  std::string text;
  if (!absl::HexStringToBytes(hex.substr(1), &text)) {
    return absl::InternalError("a call whose text is not in hexadecimal digits.");
  }
  HostCall call{};
  call.kind = name.c_str();
  call.text = text.c_str();
  call.text_size = static_cast<std::int64_t>(text.size());
  call.op = o;
  call.inputs = inputs.size();
  call.outputs = outputs.size();
  call.input = inputs.get();
  call.output = outputs.get();
  CallProgram program;
  return call_host(*program, current_context(), &call);
}

ffi::Error host_call(ffi::RemainingArgs args, ffi::RemainingRets results,
                     std::string_view kind, std::string_view text, std::int64_t o) {
  return answer(kHostCall, [&] { return host(args, results, kind, text, o); });
}

XLA_FFI_DEFINE_HANDLER(kHostHandler, host_call,
                       ffi::Ffi::Bind()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<std::string_view>("kind")
                           .Attr<std::string_view>("text")
                           .Attr<std::int64_t>("o"));
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kHostCall, "Host", kHostHandler);

}  // namespace
}  // namespace ipufeed
