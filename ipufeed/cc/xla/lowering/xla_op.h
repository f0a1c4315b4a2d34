// The base of our ops' lowering into compiled programs, as kernels.h. For
// files with XLA's headers.
#pragma once

#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/guard.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "xla/shape.h"

namespace ipufeed {

class LoweredOp : public tensorflow::XlaOpKernel {
 public:
  using XlaOpKernel::XlaOpKernel;

  void Compile(tensorflow::XlaOpKernelContext* ctx) final {
    const absl::Status status =
        guarded(type_string().c_str(), [&] { return lower(ctx); });
    if (!status.ok()) ctx->SetStatus(status);
  }

 protected:
  absl::Status check_scalars(tensorflow::XlaOpKernelContext* ctx,
                             std::initializer_list<int> inputs) const {
    for (const int input : inputs) {
      TF_ASSIGN_OR_RETURN(const xla::Shape shape, ctx->InputXlaShape(input));
      if (shape.dimensions().empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          type_string(), ": input ", input, " must be a scalar, got the shape [",
          absl::StrJoin(shape.dimensions(), ","), "]."));
    }
    return absl::OkStatus();
  }

 private:
  virtual absl::Status lower(tensorflow::XlaOpKernelContext* ctx) = 0;
};

}  // namespace ipufeed
