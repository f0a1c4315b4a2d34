// An op over a dataset that may take long.
#pragma once

#include "absl/status/status.h"
#include "base/kernels.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {

// It may take minutes: see LongKernel.
class LongDatasetOp : public LongKernel {
 public:
  using LongKernel::LongKernel;

 private:
  absl::Status run(tensorflow::OpKernelContext* ctx) final {
    tensorflow::data::DatasetBase* dataset = nullptr;
    TF_RETURN_IF_ERROR(
        tensorflow::data::GetDatasetFromVariantTensor(ctx->input(0), &dataset));
    return run(ctx, dataset);
  }

  virtual absl::Status run(tensorflow::OpKernelContext* ctx,
                           tensorflow::data::DatasetBase* dataset) = 0;
};

}  // namespace ipufeed
