// The base of our kernels for TensorFlow's executor: they throw no exceptions, and
// check the ranks of their inputs, since an op can be called directly.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace ipufeed {

// Compute() of a kernel that does not wait for other threads of the host.
class Kernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) final {
    const absl::Status status =
        guarded(type_string().c_str(), [&] { return run(ctx); });
    if (!status.ok()) ctx->SetStatus(status);
  }

 private:
  virtual absl::Status run(tensorflow::OpKernelContext* ctx) = 0;
};

// A kernel that may take long: it runs on a thread of its own, since blocking the
// executor's thread could block the thread that it waits for.
class LongKernel : public tensorflow::AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) final {
    const auto work = [this, ctx, done] {
      const absl::Status status =
          guarded(type_string().c_str(), [&] { return run(ctx); });
      if (!status.ok()) ctx->SetStatus(status);
      done();  // may destroy this
    };
    if (!takes_long()) {
      work();
      return;
    }
    const absl::Status begun =
        guarded("the start of an op's thread", [&] { ctx->env()->SchedClosure(work); });
    if (begun.ok()) return;
    ctx->SetStatus(begun);
    done();
  }

 private:
  virtual absl::Status run(tensorflow::OpKernelContext* ctx) = 0;
  virtual bool takes_long() const { return true; }
};

// Whether these inputs are scalars.
inline absl::Status check_scalars(tensorflow::OpKernelContext* ctx,
                                  std::initializer_list<int> inputs) {
  for (const int input : inputs) {
    const tensorflow::TensorShape& shape = ctx->input(input).shape();
    if (shape.dims() == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(ctx->op_kernel().type_string(), ": input ", input,
                     " must be a scalar, got the shape ", shape.DebugString(), "."));
  }
  return absl::OkStatus();
}

// Whether an op's tensors may be copied byte by byte.
inline absl::Status check_bytes(const std::string& op, std::size_t index,
                                tensorflow::DataType dtype) {
  if (tensorflow::DataTypeCanUseMemcpy(dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      op, ": tensor ", index, " has the dtype ", tensorflow::DataTypeString(dtype),
      ", and only numbers and bools can be moved."));
}

// A tensor, or an error if memory for it is lacking. what: for the message, together
// with `name`.
inline absl::Status allocate(tensorflow::DataType dtype,
                             const tensorflow::TensorShape& shape, const char* what,
                             std::string_view name, tensorflow::Tensor* tensor) {
  if (!allocation_fails(what)) {
    *tensor = tensorflow::Tensor(dtype, shape);
    if (tensor->IsInitialized()) return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "There is no memory for ", what, " '", name,
      "': ", tensorflow::DataTypeString(dtype), " ", shape.DebugString(), "."));
}

// The same for an output of an op.
inline absl::Status allocate_output(tensorflow::OpKernelContext* ctx, int index,
                                    const tensorflow::TensorShape& shape,
                                    tensorflow::Tensor** output) {
  if (!allocation_fails("an op's output")) {
    return ctx->allocate_output(index, shape, output);
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("There is no memory for an output of ",
                   ctx->op_kernel().type_string(), ": ", shape.DebugString(), "."));
}

}  // namespace ipufeed
