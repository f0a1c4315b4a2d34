// The probe: a dataset that gives the elements of its input, and counts. See
// stage_probe.h.

#include <time.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stage_probe.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "wait.h"

namespace ipufeed {
namespace {

using tensorflow::Node;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::data::DatasetBase;
using tensorflow::data::DatasetContext;
using tensorflow::data::IteratorBase;
using tensorflow::data::IteratorContext;
using tensorflow::data::IteratorStateReader;
using tensorflow::data::IteratorStateWriter;
using tensorflow::data::SerializationContext;

REGISTER_OP("IpufeedProbeDataset")
    .Input("input_dataset: variant")
    .Output("handle: variant")
    .Attr("group: int")
    .Attr("slot: int")
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Gives the elements of its input, and counts into a slot of a group: see stage_probe.h.
)doc");

std::int64_t thread_cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

class ProbeDataset : public DatasetBase {
 public:
  ProbeDataset(OpKernelContext* ctx, const DatasetBase* input, std::int64_t group,
               std::int64_t slot)
      : DatasetBase(DatasetContext(ctx)),
        input_(input),
        group_(group),
        slot_(slot),
        counters_(probe_counters(group, slot)) {
    input_->Ref();
  }
  ~ProbeDataset() override { input_->Unref(); }

  std::unique_ptr<IteratorBase> MakeIteratorInternal(
      const std::string& prefix) const override {
    return std::make_unique<Iterator>(
        Iterator::Params{this, absl::StrCat(prefix, "::IpufeedProbe")});
  }
  const tensorflow::DataTypeVector& output_dtypes() const override {
    return input_->output_dtypes();
  }
  const std::vector<tensorflow::PartialTensorShape>& output_shapes() const override {
    return input_->output_shapes();
  }
  std::string DebugString() const override { return "IpufeedProbeDataset"; }
  std::int64_t CardinalityInternal(
      tensorflow::data::CardinalityOptions options) const override {
    return input_->Cardinality(options);
  }
  absl::Status InputDatasets(std::vector<const DatasetBase*>* inputs) const override {
    inputs->push_back(input_);
    return absl::OkStatus();
  }
  absl::Status CheckExternalState() const override {
    return input_->CheckExternalState();
  }

 protected:
  absl::Status AsGraphDefInternal(SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                  Node** output) const override {
    Node* input = nullptr;
    TF_RETURN_IF_ERROR(b->AddInputDataset(ctx, input_, &input));
    tensorflow::AttrValue group;
    tensorflow::AttrValue slot;
    b->BuildAttrValue(group_, &group);
    b->BuildAttrValue(slot_, &slot);
    return b->AddDataset(this, {{0, input}}, {}, {{"group", group}, {"slot", slot}},
                         /*use_dataset_name=*/false, output);
  }

 private:
  class Iterator : public tensorflow::data::DatasetIterator<ProbeDataset> {
   public:
    explicit Iterator(const Params& params)
        : tensorflow::data::DatasetIterator<ProbeDataset>(params) {}
    ~Iterator() override {
      // First the books, then the step: it takes its part of the model along.
      if (live_ != nullptr) dataset()->counters_->end(live_);
    }

    bool SymbolicCheckpointCompatible() const override { return true; }

    absl::Status Initialize(IteratorContext* ctx) override {
      live_ = dataset()->counters_->begin(model_node());
      return dataset()->input_->MakeIterator(ctx, this, prefix(), &input_);
    }

    absl::Status GetNextInternal(IteratorContext* ctx, std::vector<Tensor>* out,
                                 bool* end_of_sequence) override {
      ProbeCounters& counters = *dataset()->counters_;
      const std::int64_t start_ns = now_ns();
      counters.enter(start_ns);
      const std::int64_t cpu_ns = thread_cpu_ns();
      const absl::Status status = input_->GetNext(ctx, out, end_of_sequence);
      counters.leave(start_ns, now_ns(), thread_cpu_ns() - cpu_ns,
                     status.ok() && !*end_of_sequence);
      return status;
    }

   protected:
    std::shared_ptr<tensorflow::data::model::Node> CreateNode(
        IteratorContext* ctx, tensorflow::data::model::Node::Args args) const override {
      return tensorflow::data::model::MakeKnownRatioNode(std::move(args), /*ratio=*/1);
    }
    absl::Status SaveInternal(SerializationContext* ctx,
                              IteratorStateWriter* writer) override {
      return SaveInput(ctx, writer, input_);
    }
    absl::Status RestoreInternal(IteratorContext* ctx,
                                 IteratorStateReader* reader) override {
      return RestoreInput(ctx, reader, input_);
    }

   private:
    std::unique_ptr<IteratorBase> input_;
    ProbeCounters::Live* live_ = nullptr;
  };

  const DatasetBase* const input_;
  const std::int64_t group_;
  const std::int64_t slot_;
  const std::shared_ptr<ProbeCounters> counters_;
};

class ProbeDatasetOp : public tensorflow::data::UnaryDatasetOpKernel {
 public:
  explicit ProbeDatasetOp(OpKernelConstruction* ctx) : UnaryDatasetOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("group", &group_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("slot", &slot_));
  }

 protected:
  void MakeDataset(OpKernelContext* ctx, DatasetBase* input,
                   DatasetBase** output) override {
    *output = new ProbeDataset(ctx, input, group_, slot_);
  }

 private:
  std::int64_t group_ = 0;
  std::int64_t slot_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedProbeDataset").Device(tensorflow::DEVICE_CPU),
                        ProbeDatasetOp);

}  // namespace
}  // namespace ipufeed
