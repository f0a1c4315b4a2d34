// A dataset that passes its input on, and says in an error which element it was.
//
// tf.data's own errors say what is wrong, not with which file: "Unknown image file
// format". Here the k-th name goes in front of the error of the k-th element. The
// elements below must be one to one with the names, and in their order.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/model.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
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
k-th element. Errors count as elements, as they do for ignore_errors.
)doc");

constexpr char kNode[] = "IpufeedNameErrors";

class NameErrorsDataset : public DatasetBase {
 public:
  NameErrorsDataset(OpKernelContext* ctx, const DatasetBase* input, Tensor names)
      : DatasetBase(DatasetContext(ctx)), input_(input), names_(std::move(names)) {
    input_->Ref();
  }
  ~NameErrorsDataset() override { input_->Unref(); }

  const tensorflow::DataTypeVector& output_dtypes() const override {
    return input_->output_dtypes();
  }
  const std::vector<PartialTensorShape>& output_shapes() const override {
    return input_->output_shapes();
  }
  std::string DebugString() const override { return "IpufeedNameErrorsDataset"; }
  std::int64_t CardinalityInternal(CardinalityOptions options) const override {
    return input_->Cardinality(options);
  }
  absl::Status InputDatasets(std::vector<const DatasetBase*>* inputs) const override {
    inputs->push_back(input_);
    return absl::OkStatus();
  }
  absl::Status CheckExternalState() const override {
    return input_->CheckExternalState();
  }

  std::unique_ptr<IteratorBase> MakeIteratorInternal(
      const std::string& prefix) const override {
    return std::make_unique<Iterator>(
        Iterator::Params{this, absl::StrCat(prefix, "::", kNode)});
  }

 protected:
  absl::Status AsGraphDefInternal(SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                  tensorflow::Node** output) const override {
    tensorflow::Node* input = nullptr;
    tensorflow::Node* names = nullptr;
    TF_RETURN_IF_ERROR(b->AddInputDataset(ctx, input_, &input));
    TF_RETURN_IF_ERROR(b->AddTensor(names_, &names));
    return b->AddDataset(this, {input, names}, output);
  }

 private:
  class Iterator : public DatasetIterator<NameErrorsDataset> {
   public:
    using DatasetIterator<NameErrorsDataset>::DatasetIterator;

    bool SymbolicCheckpointCompatible() const override { return true; }

    absl::Status Initialize(IteratorContext* ctx) override {
      return dataset()->input_->MakeIterator(ctx, this, prefix(), &input_);
    }

    absl::Status GetNextInternal(IteratorContext* ctx, std::vector<Tensor>* out,
                                 bool* end) override {
      std::int64_t number = 0;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        number = next_++;
      }
      absl::Status status = input_->GetNext(ctx, out, end);
      const Tensor& names = dataset()->names_;
      // The end and a stop are nobody's fault.
      if (status.ok() || absl::IsCancelled(status) || number >= names.NumElements()) {
        return status;
      }
      return absl::Status(status.code(), absl::StrCat(names.flat<tstring>()(number),
                                                      ": ", status.message()));
    }

   protected:
    std::shared_ptr<model::Node> CreateNode(IteratorContext* ctx,
                                            model::Node::Args args) const override {
      return model::MakeKnownRatioNode(std::move(args), /*ratio=*/1);
    }

    absl::Status SaveInternal(SerializationContext* ctx,
                              IteratorStateWriter* writer) override {
      std::lock_guard<std::mutex> lock(mutex_);
      TF_RETURN_IF_ERROR(writer->WriteScalar(prefix(), "next", next_));
      return SaveInput(ctx, writer, input_);
    }

    absl::Status RestoreInternal(IteratorContext* ctx,
                                 IteratorStateReader* reader) override {
      std::lock_guard<std::mutex> lock(mutex_);
      std::int64_t next = 0;
      TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), "next", &next));
      next_ = next;
      return RestoreInput(ctx, reader, input_);
    }

   private:
    std::mutex mutex_;
    std::int64_t next_ = 0;  // guarded by mutex_
    std::unique_ptr<IteratorBase> input_;
  };

  const DatasetBase* const input_;
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
    OP_REQUIRES(ctx, names->dims() == 1,
                absl::InvalidArgumentError(absl::StrCat(
                    "`names` must be a vector, got ", names->dims(), " dimensions.")));
    *output = new NameErrorsDataset(ctx, input, *names);
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedNameErrorsDataset").Device(tensorflow::DEVICE_CPU),
                        NameErrorsDatasetOp);

}  // namespace
}  // namespace ipufeed
