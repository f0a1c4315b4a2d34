// An op over a dataset that may take long.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {

// Runs on a thread of its own: it may take minutes, and a kernel that blocked the
// executor's thread could block the very thread that its dataset needs.
class LongDatasetOp : public tensorflow::AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override {
    ctx->env()->SchedClosure([this, ctx, done = std::move(done)] {
      tensorflow::data::DatasetBase* dataset = nullptr;
      absl::Status status =
          tensorflow::data::GetDatasetFromVariantTensor(ctx->input(0), &dataset);
      if (status.ok()) status = run(ctx, dataset);
      if (!status.ok()) ctx->SetStatus(status);
      done();  // may destroy this
    });
  }

 private:
  virtual absl::Status run(tensorflow::OpKernelContext* ctx,
                           tensorflow::data::DatasetBase* dataset) = 0;
};

}  // namespace ipufeed
