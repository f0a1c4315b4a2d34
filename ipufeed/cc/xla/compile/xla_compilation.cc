#include "xla/compile/xla_compilation.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "run/detached_work.h"
#include "run/program.h"
#include "tensorflow/core/util/env_var.h"
#include "xla/client/executable_build_options.h"
#include "xla/xla.pb.h"

namespace ipufeed {
namespace {

void leave_reductions_to_xla(xla::DebugOptions* options) {
  std::string flags;
  tensorflow::ReadStringFromEnvVar("XLA_FLAGS", "", &flags).IgnoreError();
  if (absl::StrContains(flags, "ynn_fusion_type")) return;
  auto* fusions = options->mutable_xla_cpu_experimental_ynn_fusion_type();
  const auto left =
      std::remove(fusions->begin(), fusions->end(),
                  static_cast<int>(xla::DebugOptions::LIBRARY_FUSION_TYPE_REDUCE));
  fusions->Truncate(static_cast<int>(left - fusions->begin()));
}

// What XLA's compiler reads and writes, also after its caller has gone.
struct Compilation {
  std::shared_ptr<xla::XlaComputation> computation;
  std::shared_ptr<stream_executor::DeviceAddressAllocator> allocator;
  std::vector<xla::Shape> inputs;
  absl::StatusOr<std::vector<std::unique_ptr<xla::LocalExecutable>>> executables;

  void run(xla::LocalClient* client, const xla::ExecutableBuildOptions& build) {
    std::vector<const xla::Shape*> layouts;
    layouts.reserve(inputs.size());
    for (const auto& shape : inputs) layouts.push_back(&shape);
    executables = client->Compile(*computation, layouts, build);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<xla::LocalExecutable>> compile_by_xla(
    xla::LocalClient* client, const tensorflow::XlaCompiler::Options& options,
    const tensorflow::XlaCompiler::CompilationResult& result) {
  xla::ExecutableBuildOptions build;
  build.set_device_ordinal(options.device_ordinal < 0 ? client->default_device_ordinal()
                                                      : options.device_ordinal);
  build.set_device_allocator(options.device_allocator.get());
  build.set_result_layout(result.xla_output_shape);
  build.set_alias_passthrough_params(options.alias_passthrough_params);
  auto* debug = build.mutable_debug_options();
  debug->set_xla_detailed_logging(options.detailed_logging);
  leave_reductions_to_xla(debug);
  const auto compilation = std::make_shared<Compilation>();
  compilation->computation = result.computation;
  compilation->allocator = options.device_allocator;
  compilation->inputs = result.xla_input_shapes;
  TF_RETURN_IF_ERROR(
      run_detached(current_program(), "XLA's compilation",
                   [client, build, compilation] { compilation->run(client, build); }));
  auto& executables = compilation->executables;
  if (!executables.ok()) return executables.status();
  if (executables->size() != 1) {
    return absl::InternalError(absl::StrCat("XLA has compiled ", executables->size(),
                                            " programs instead of one."));
  }
  return std::move(executables->front());
}

}  // namespace ipufeed
