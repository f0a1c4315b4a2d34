// A program as XLA writes it: as text, and as a graph in Graphviz's language.

#include <cstdint>
#include <string>

#include "capi/api.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/service/hlo.pb.h"
#include "xla/service/hlo_graph_dumper.h"
#include "xla/service/hlo_module_config.h"

namespace ipufeed {
namespace {

// Gets the text; `ok` is 0 for that of an error.
using TakeText = void (*)(int ok, const char* text, std::int64_t size);

absl::StatusOr<std::string> written(const std::string& bytes, bool as_dot) {
  xla::HloModuleProto proto;
  if (!proto.ParseFromString(bytes)) {
    return absl::InvalidArgumentError("it is no HloModuleProto");
  }
  const xla::DebugOptions options;
  const auto config = xla::HloModule::CreateModuleConfigFromProto(proto, options);
  if (!config.ok()) return config.status();
  const auto module = xla::HloModule::CreateFromProto(proto, *config);
  if (!module.ok()) return module.status();
  if (!as_dot) return (*module)->ToString();
  return xla::RenderGraph(*(*module)->entry_computation(), proto.name(), options,
                          xla::RenderedGraphFormat::kDot);
}

}  // namespace
}  // namespace ipufeed

// Any thread; `take` is called once, on this one.
IPUFEED_API int ipufeed_hlo_text(const char* bytes, std::int64_t size, int as_dot,
                                 ipufeed::TakeText take) {
  return ipufeed::entry(__func__, [&] {
    const auto text = ipufeed::written(
        std::string(bytes, static_cast<std::size_t>(size)), as_dot != 0);
    const std::string said = text.ok() ? *text : std::string(text.status().message());
    take(text.ok() ? 1 : 0, said.data(), static_cast<std::int64_t>(said.size()));
  });
}
