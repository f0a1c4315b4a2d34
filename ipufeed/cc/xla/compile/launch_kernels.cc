// Makes the kernels that launch compiled functions on an IPU, and gives back what
// making them has taken.
//
//   tf.function(jit_compile=True) -> CreateKernel -> XlaKernelCreator -> a kernel
//                                                      instantiates the function, and
//                                                      the bodies of its loops
//
// TensorFlow does not release these instances. Each holds its function's graph with the
// stack trace of each op, 0.3 MB for a small program, until the end of the process. The
// kernel does not use them: which arguments are constants and resources is all that is
// read, and XLA's compiler instantiates functions in a runtime of its own.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/guard.h"
#include "tensorflow/compiler/jit/xla_kernel_creator.h"
#include "tensorflow/core/common_runtime/function.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {
namespace {

using tensorflow::FunctionLibraryDefinition;
using tensorflow::FunctionLibraryRuntime;
using tensorflow::NodeProperties;
using tensorflow::OpKernel;
using tensorflow::XlaKernelCreator;

// A runtime that releases at its end what was instantiated by it, as often as it was.
class ReleasingRuntime final : public FunctionLibraryRuntime {
 public:
  explicit ReleasingRuntime(FunctionLibraryRuntime* runtime) : runtime_(runtime) {}

  ~ReleasingRuntime() override {
    // What is released exists, so releasing does not fail.
    for (const Handle handle : handles_) runtime_->ReleaseHandle(handle).IgnoreError();
  }

  absl::Status Instantiate(const std::string& name, tensorflow::AttrSlice attributes,
                           const InstantiateOptions& options, Handle* handle) override {
    // Room is made first: what is instantiated is in the list.
    handles_.reserve(handles_.size() + 1);
    absl::Status status = runtime_->Instantiate(name, attributes, options, handle);
    if (status.ok()) handles_.push_back(*handle);
    return status;
  }

  // TensorFlow may release some itself one day: not twice then.
  absl::Status ReleaseHandle(Handle handle) override {
    for (auto each = handles_.begin(); each != handles_.end(); ++each) {
      if (*each != handle) continue;
      handles_.erase(each);
      break;
    }
    return runtime_->ReleaseHandle(handle);
  }

  absl::Status Finalize() override { return runtime_->Finalize(); }
  const tensorflow::FunctionBody* GetFunctionBody(Handle handle) override {
    return runtime_->GetFunctionBody(handle);
  }
  absl::Status GetRetTypes(Handle handle, tensorflow::DataTypeVector* types) override {
    return runtime_->GetRetTypes(handle, types);
  }
  void Run(const Options& options, Handle handle,
           absl::Span<const tensorflow::Tensor> arguments,
           std::vector<tensorflow::Tensor>* results, DoneCallback done) override {
    runtime_->Run(options, handle, arguments, results, std::move(done));
  }
  void Run(const Options& options, Handle handle, tensorflow::CallFrameInterface* frame,
           DoneCallback done) override {
    runtime_->Run(options, handle, frame, std::move(done));
  }
  absl::Status RunSync(Options options, Handle handle,
                       absl::Span<const tensorflow::Tensor> arguments,
                       std::vector<tensorflow::Tensor>* results) override {
    return runtime_->RunSync(std::move(options), handle, arguments, results);
  }
  absl::Status RunSync(Options options, Handle handle,
                       tensorflow::CallFrameInterface* frame) override {
    return runtime_->RunSync(std::move(options), handle, frame);
  }
  absl::Status CreateKernel(const std::shared_ptr<const NodeProperties>& properties,
                            OpKernel** kernel) override {
    return runtime_->CreateKernel(properties, kernel);
  }
  bool IsStateful(const std::string& name) const override {
    return runtime_->IsStateful(name);
  }
  tensorflow::Device* device() override { return runtime_->device(); }
  const tensorflow::Device* device() const override {
    return std::as_const(*runtime_).device();
  }
  std::function<void(std::function<void()>)>* runner() override {
    return runtime_->runner();
  }
  const tensorflow::DeviceMgr* device_mgr() const override {
    return runtime_->device_mgr();
  }
  const FunctionLibraryDefinition* GetFunctionLibraryDefinition() const override {
    return runtime_->GetFunctionLibraryDefinition();
  }
  tensorflow::Env* env() override { return runtime_->env(); }
// Its type is TensorFlow's, with a const that means nothing.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-qualifiers"
  const tensorflow::ConfigProto* const config_proto() override {
    return runtime_->config_proto();
  }
#pragma GCC diagnostic pop
  std::string DebugString(Handle handle) override {
    return runtime_->DebugString(handle);
  }
  int graph_def_version() const override { return runtime_->graph_def_version(); }
  absl::Status Clone(std::unique_ptr<FunctionLibraryDefinition>* definition,
                     std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime>* parent,
                     FunctionLibraryRuntime** runtime, bool skip_definition) override {
    return runtime_->Clone(definition, parent, runtime, skip_definition);
  }

 private:
  FunctionLibraryRuntime* const runtime_;
  std::vector<Handle> handles_;
};

// TensorFlow's own, on all devices; on an IPU with a runtime that releases.
class KernelCreator final : public XlaKernelCreator {
 public:
  absl::Status CreateKernel(FunctionLibraryRuntime* runtime,
                            const std::shared_ptr<const NodeProperties>& properties,
                            std::unique_ptr<OpKernel>* kernel) const override {
    // Its device type is the CPU's, whose kernels it has.
    if (runtime->device() == nullptr ||
        runtime->device()->parsed_name().type != "IPU") {
      return XlaKernelCreator::CreateKernel(runtime, properties, kernel);
    }
    return guarded("the kernel of a compiled function", [&]() -> absl::Status {
      const tensorflow::core::RefCountPtr<ReleasingRuntime> releasing(
          new ReleasingRuntime(runtime));
      return XlaKernelCreator::CreateKernel(releasing.get(), properties, kernel);
    });
  }
};

// Replaces the one that TensorFlow registers when it is loaded.
const bool kCreatorRegistered = [] {
  tensorflow::RegisterDefaultCustomKernelCreator(new KernelCreator);
  return true;
}();

}  // namespace
}  // namespace ipufeed
