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
#include "xla/lowering/donation.h"
#include "xla/service/compiler.h"
#include "xla/service/dump.h"
#include "xla/service/hlo_module_util.h"
#include "xla/service/local_service_utils.h"
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
  std::vector<VariableUpdate> updates;
  absl::StatusOr<std::vector<std::unique_ptr<xla::LocalExecutable>>> executables;

  void run(xla::LocalClient* client, const xla::ExecutableBuildOptions& build) {
    std::vector<const xla::Shape*> layouts;
    layouts.reserve(inputs.size());
    for (const auto& shape : inputs) layouts.push_back(&shape);
    if (updates.empty()) {
      executables = client->Compile(*computation, layouts, build);
    } else {
      executables = compile_with_donation(client, build, layouts);
    }
  }

 private:
  // What LocalClient::Compile() does, with donate_variables() between XLA's passes and
  // its back end.
  absl::StatusOr<std::vector<std::unique_ptr<xla::LocalExecutable>>>
  compile_with_donation(xla::LocalClient* client,
                        const xla::ExecutableBuildOptions& build,
                        const std::vector<const xla::Shape*>& layouts) const {
    xla::Backend* backend = client->mutable_backend();
    xla::Compiler* compiler = backend->compiler();
    xla::Compiler::CompileOptions options;
    options.device_allocator = build.device_allocator();
    TF_ASSIGN_OR_RETURN(const auto config,
                        xla::GetHloModuleConfig(*computation, layouts, build,
                                                /*options=*/nullptr, backend));
    TF_ASSIGN_OR_RETURN(auto* executor,
                        backend->stream_executor(build.device_ordinal()));
    TF_ASSIGN_OR_RETURN(auto module,
                        xla::CreateModuleFromProto(computation->proto(), *config));
    xla::UpdateEntryComputationLayout(
        module.get(), [compiler](const xla::Shape& shape) {
          return compiler->DefaultDeviceShapeRepresentation(shape);
        });
    xla::DumpHloModuleIfEnabled(*module, xla::kBeforeOptimizationsDumpName);
    TF_ASSIGN_OR_RETURN(module,
                        compiler->RunHloPasses(std::move(module), executor, options));
    donate_variables(module.get(), updates);
    TF_ASSIGN_OR_RETURN(auto executable,
                        compiler->RunBackend(std::move(module), executor, options));
    std::vector<std::unique_ptr<xla::LocalExecutable>> executables;
    executables.push_back(
        std::make_unique<xla::LocalExecutable>(std::move(executable), backend, build));
    return executables;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<xla::LocalExecutable>> compile_by_xla(
    xla::LocalClient* client, const tensorflow::XlaCompiler::Options& options,
    const tensorflow::XlaCompiler::CompilationResult& result,
    std::vector<VariableUpdate> updates) {
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
  compilation->updates = std::move(updates);
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
