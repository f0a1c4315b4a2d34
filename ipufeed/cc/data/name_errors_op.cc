// A dataset that passes its input on, and adds the element's number to an error.
//
// tf.data's own errors name the fault, not the file: "Unknown image file
// format". Here the k-th name precedes the error of the k-th element: the
// elements below must be one to one with the names, and in their order. A single name,
// a scalar, stands for all elements, as those of one file.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/mutex.h"
#include "data/passing_dataset.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::tstring;
using namespace tensorflow::data;  // NOLINT: the base classes' types, a dozen of them

REGISTER_OP("IpufeedNameErrorsDataset")
    .Input("input_dataset: variant")
    .Input("names: string")
    .Output("handle: variant")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("metadata: string = ''")
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Passes on the elements of a dataset; puts the k-th of `names` in front of the error of the
k-th element. Errors count as elements, as they do for ignore_errors. A scalar stands in front
of all errors.
)doc");

class NameErrorsDataset : public PassingDataset {
 public:
  NameErrorsDataset(OpKernelContext* ctx, const DatasetBase* input, Tensor names)
      : PassingDataset(ctx, input), names_(std::move(names)) {}

  std::unique_ptr<IteratorBase> MakeIteratorInternal(
      const std::string& prefix) const override {
    return make_iterator<Iterator>(this, prefix);
  }

 protected:
  absl::Status AsGraphDefInternal(SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                  tensorflow::Node** output) const override {
    tensorflow::Node* node = nullptr;
    tensorflow::Node* names = nullptr;
    TF_RETURN_IF_ERROR(b->AddInputDataset(ctx, input(), &node));
    TF_RETURN_IF_ERROR(b->AddTensor(names_, &names));
    return b->AddDataset(this, {node, names}, output);
  }

 private:
  class Iterator : public PassingIterator<NameErrorsDataset> {
   public:
    using PassingIterator<NameErrorsDataset>::PassingIterator;

    absl::Status GetNextInternal(IteratorContext* ctx, std::vector<Tensor>* out,
                                 bool* end) override {
      const Tensor& names = dataset()->names_;
      std::int64_t number = 0;
      if (names.dims() > 0) {
        MutexLock lock(mutex_);
        number = next_++;
      }
      absl::Status status = input()->GetNext(ctx, out, end);
      // The end and a stop are not errors of a stage.
      if (status.ok() || absl::IsCancelled(status) || number >= names.NumElements()) {
        return status;
      }
      return absl::Status(status.code(), absl::StrCat(names.flat<tstring>()(number),
                                                      ": ", status.message()));
    }

   protected:
    absl::Status SaveInternal(SerializationContext* ctx,
                              IteratorStateWriter* writer) override {
      MutexLock lock(mutex_);
      TF_RETURN_IF_ERROR(writer->WriteScalar(prefix(), "next", next_));
      return PassingIterator::SaveInternal(ctx, writer);
    }

    absl::Status RestoreInternal(IteratorContext* ctx,
                                 IteratorStateReader* reader) override {
      MutexLock lock(mutex_);
      std::int64_t next = 0;
      TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), "next", &next));
      next_ = next;
      return PassingIterator::RestoreInternal(ctx, reader);
    }

   private:
    Mutex mutex_;
    std::int64_t next_ IPUFEED_GUARDED_BY(mutex_) = 0;
  };

  const Tensor names_;
};

class NameErrorsDatasetOp : public UnaryDatasetOpKernel {
 public:
  using UnaryDatasetOpKernel::UnaryDatasetOpKernel;

 protected:
  void MakeDataset(OpKernelContext* ctx, DatasetBase* input,
                   DatasetBase** output) override {
    const Tensor* names = nullptr;
    OP_REQUIRES_OK(ctx, ctx->input("names", &names));
    OP_REQUIRES(ctx, names->dims() <= 1,
                absl::InvalidArgumentError(
                    absl::StrCat("`names` must be a scalar or a vector, got ",
                                 names->dims(), " dimensions.")));
    make_guarded(ctx, [&] { *output = new NameErrorsDataset(ctx, input, *names); });
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedNameErrorsDataset").Device(tensorflow::DEVICE_CPU),
                        NameErrorsDatasetOp);

}  // namespace
}  // namespace ipufeed
