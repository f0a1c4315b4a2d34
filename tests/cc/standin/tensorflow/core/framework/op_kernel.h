// The context of an op that runs: its inputs and outputs, and what its device has. The
// kernels' base classes are only named: no test runs a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorflow {

class Env {
 public:
  // On a thread of its own.
  void SchedClosure(std::function<void()> closure) {
    std::thread(std::move(closure)).detach();
  }
};

class OpKernel;

class ScopedStepContainer {
 public:
  std::int64_t StepId() const { return 0; }
};

class OpKernelContext {
 public:
  // dtypes: of the outputs. resources: of the device; may be null.
  explicit OpKernelContext(std::vector<DataType> dtypes,
                           ResourceMgr* resources = nullptr)
      : dtypes_(std::move(dtypes)), outputs_(dtypes_.size()), resources_(resources) {}

  ResourceMgr* resource_manager() const { return resources_; }

  // As in eager mode.
  std::int64_t step_id() const { return -1; }
  ScopedStepContainer* step_container() const { return nullptr; }

  Env* env() const {
    static Env env;
    return &env;
  }

  void SetStatus(const absl::Status& status) { status_.Update(status); }
  const absl::Status& status() const { return status_; }

  const OpKernel& op_kernel() const;

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  const Tensor& input(int i) const { return inputs_[std::size_t(i)]; }
  void set_inputs(std::vector<Tensor> inputs) { inputs_ = std::move(inputs); }

  int num_outputs() const { return static_cast<int>(dtypes_.size()); }
  DataType expected_output_dtype(int i) const { return dtypes_[std::size_t(i)]; }
  void set_output(int i, Tensor tensor) {
    outputs_[std::size_t(i)] = std::move(tensor);
  }
  Tensor* mutable_output(int i) { return &outputs_[std::size_t(i)]; }
  absl::Status allocate_output(int i, const TensorShape& shape, Tensor** output) {
    Tensor tensor(expected_output_dtype(i), shape);
    if (!tensor.IsInitialized()) return absl::ResourceExhaustedError("OOM");
    set_output(i, std::move(tensor));
    *output = mutable_output(i);
    return absl::OkStatus();
  }

 private:
  const std::vector<DataType> dtypes_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  absl::Status status_;
  ResourceMgr* const resources_;
};

class OpKernelConstruction;

class OpKernel {
 public:
  explicit OpKernel(OpKernelConstruction*) {}
  virtual ~OpKernel() = default;
  virtual void Compute(OpKernelContext*) {}
  const std::string& type_string() const {
    static const std::string type("Test");
    return type;
  }
};

inline const OpKernel& OpKernelContext::op_kernel() const {
  static const OpKernel kernel(nullptr);
  return kernel;
}

class AsyncOpKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;
  using DoneCallback = std::function<void()>;
  virtual void ComputeAsync(OpKernelContext* ctx, DoneCallback done) = 0;
  void Compute(OpKernelContext* ctx) override;
};

}  // namespace tensorflow
