#include "xla/compile/hlo_text.h"

#include <string>

#include "xla/hlo/ir/hlo_module.h"
#include "xla/service/hlo.pb.h"
#include "xla/service/hlo_graph_dumper.h"
#include "xla/service/hlo_module_config.h"

namespace ipufeed {

absl::StatusOr<std::string> hlo_text(const std::string& bytes, bool as_dot) {
  xla::HloModuleProto proto;
  if (!proto.ParseFromString(bytes)) {
    return absl::InvalidArgumentError("it is not an HloModuleProto");
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

}  // namespace ipufeed
