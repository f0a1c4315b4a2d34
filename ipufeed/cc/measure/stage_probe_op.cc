// The probe: a dataset that gives the elements of its input, and counts. See
// stage_probe.h.

#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/wait.h"
#include "data/passing_dataset.h"
#include "measure/stage_probe.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {
namespace {

using tensorflow::Node;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::data::DatasetBase;
using tensorflow::data::IteratorBase;
using tensorflow::data::IteratorContext;
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

class ProbeDataset : public PassingDataset {
 public:
  ProbeDataset(OpKernelContext* ctx, const DatasetBase* input, std::int64_t group,
               std::int64_t slot)
      : PassingDataset(ctx, input),
        group_(group),
        slot_(slot),
        counters_(probe_counters(group, slot)) {}

  std::unique_ptr<IteratorBase> MakeIteratorInternal(
      const std::string& prefix) const override {
    return make_iterator<Iterator>(this, prefix);
  }

 protected:
  absl::Status AsGraphDefInternal(SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                  Node** output) const override {
    Node* node = nullptr;
    TF_RETURN_IF_ERROR(b->AddInputDataset(ctx, input(), &node));
    tensorflow::AttrValue group;
    tensorflow::AttrValue slot;
    b->BuildAttrValue(group_, &group);
    b->BuildAttrValue(slot_, &slot);
    return b->AddDataset(this, {{0, node}}, {}, {{"group", group}, {"slot", slot}},
                         /*use_dataset_name=*/false, output);
  }

 private:
  class Iterator : public PassingIterator<ProbeDataset> {
   public:
    using PassingIterator<ProbeDataset>::PassingIterator;
    ~Iterator() override {
      // First the books, then the step: it takes its part of the model along.
      if (live_ != nullptr) dataset()->counters_->end(live_);
    }

    absl::Status Initialize(IteratorContext* ctx) override {
      live_ = dataset()->counters_->begin(model_node());
      return PassingIterator::Initialize(ctx);
    }

    absl::Status GetNextInternal(IteratorContext* ctx, std::vector<Tensor>* out,
                                 bool* end_of_sequence) override {
      ProbeCounters& counters = *dataset()->counters_;
      const std::int64_t start_ns = now_ns();
      counters.enter(start_ns);
      const std::int64_t cpu_ns = thread_cpu_ns();
      absl::Status status = input()->GetNext(ctx, out, end_of_sequence);
      counters.leave(start_ns, now_ns(), thread_cpu_ns() - cpu_ns,
                     status.ok() && !*end_of_sequence);
      return status;
    }

   private:
    ProbeCounters::Live* live_ = nullptr;
  };

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
    make_guarded(ctx, [&] { *output = new ProbeDataset(ctx, input, group_, slot_); });
  }

 private:
  std::int64_t group_ = 0;
  std::int64_t slot_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedProbeDataset").Device(tensorflow::DEVICE_CPU),
                        ProbeDatasetOp);

}  // namespace
}  // namespace ipufeed
