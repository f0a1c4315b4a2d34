// The ops of outfeeds, and their kernels for TensorFlow's executor. What they become in
// a compiled program is in queue_lowering.cc.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cancellation.h"
#include "base/kernels.h"
#include "core/ipus.h"
#include "feeds/feed_table.h"
#include "feeds/lease.h"
#include "feeds/outfeed.h"
#include "feeds/queue_ops.h"
#include "run/device_config.h"
#include "run/program.h"
#include "run/step_program.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;

REGISTER_OP("IpufeedEnqueue")
    .Input("components: dtypes")
    .Input("feed: int64")
    .Input("token: uint32")
    .Output("next: uint32")
    .Attr("dtypes: list(type) >= 1")
    .Attr("last: bool = false")
    .Attr("capacity: int >= 1 = 3")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      return token_shape_fn(c, {c->num_inputs() - 2, c->num_inputs() - 1});
    })
    .Doc("Gives an element to an outfeed; last: which keeps the last one only.");

class EnqueueOp : public Kernel {
 public:
  explicit EnqueueOp(OpKernelConstruction* ctx) : Kernel(ctx) {
    bool last = false;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("last", &last));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("capacity", &capacity_));
    OP_REQUIRES_OK(ctx, check_capacity(capacity_));
    mode_ = last ? OutfeedMode::kLast : OutfeedMode::kAll;
  }

 private:
  absl::Status run(OpKernelContext* ctx) override {
    const int components = ctx->num_inputs() - 2;
    TF_RETURN_IF_ERROR(check_scalars(ctx, {components, components + 1}));
    ResultElement element;
    for (int i = 0; i < components; ++i) element.components.push_back(ctx->input(i));
    TF_RETURN_IF_ERROR(with_step_program(ctx, [&](Program& program) -> absl::Status {
      Outfeed* feed = nullptr;
      TF_RETURN_IF_ERROR(lease_outfeed(program, number_of(ctx, components), mode_,
                                       static_cast<std::size_t>(capacity_), &feed));
      return feed->enqueue(program, std::move(element));
    }));
    ctx->set_output(0, ctx->input(components + 1));
    return absl::OkStatus();
  }

  OutfeedMode mode_ = OutfeedMode::kAll;
  std::int64_t capacity_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedEnqueue").Device(tensorflow::DEVICE_CPU),
                        EnqueueOp);

// Whether the step has been cancelled, for a kernel that waits on a thread of its own.
class StepCancelled {
 public:
  // wake: makes that thread check the flag, if it waits.
  StepCancelled(OpKernelContext* ctx, std::function<void()> wake)
      : wake_(std::move(wake)) {
    const auto on_cancel = [this] {
      cancelled_ = true;
      wake_();
    };
    if (!cancellation_.watch(ctx->cancellation_manager(), on_cancel)) on_cancel();
  }
  StepCancelled(const StepCancelled&) = delete;
  StepCancelled& operator=(const StepCancelled&) = delete;

  const std::atomic<bool>& flag() const { return cancelled_; }

 private:
  const std::function<void()> wake_;
  std::atomic<bool> cancelled_{false};
  Cancellation cancellation_;  // the last: its callback uses the others
};

REGISTER_OP("IpufeedOutfeedDequeue")
    .Input("number: int64")
    .Attr("dtypes: list(type) >= 1")
    .Attr("shapes: list(shape) >= 1")
    .Attr("wait_ordinal: int = -1")
    .Attr("replicated: bool = false")
    .Output("results: dtypes")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      return component_shapes(c, /*batched=*/true);
    })
    .Doc(R"doc(
All results that have come since the last call, [n, *shape] each.

wait_ordinal: first wait until no program runs on this IPU; -1 for not to wait.
replicated: several replicas may have enqueued, and then it is [n, replicas, *shape].
)doc");

// The signature that an op with results expects, from its attributes.
absl::Status read_wanted(OpKernelConstruction* ctx, ResultsWanted* wanted) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("dtypes", &wanted->dtypes));
  TF_RETURN_IF_ERROR(ctx->GetAttr("shapes", &wanted->shapes));
  return check_signature(wanted->dtypes.size(), wanted->shapes.size());
}

// One result of zeros, or `count` of them: [count, *shape] each. For an outfeed while
// programs are only compiled (one), and without results (none).
absl::Status write_zeros(OpKernelContext* ctx, const ResultsWanted& wanted,
                         const std::vector<std::int64_t>& in_front,
                         const std::string& queue) {
  for (std::size_t i = 0; i < wanted.shapes.size(); ++i) {
    TensorShape shape;
    const PartialTensorShape& known = wanted.shapes[i];
    const bool none = !in_front.empty() && in_front.front() == 0;
    if (none && !known.unknown_rank()) {
      // Of no results at all: of a program whose enqueue was refused, perhaps.
      std::vector<std::int64_t> sizes;
      for (const std::int64_t size : known.dim_sizes()) {
        sizes.push_back(size < 0 ? 0 : size);
      }
      TF_RETURN_IF_ERROR(TensorShape::BuildTensorShape(sizes, &shape));
    } else if (!known.AsTensorShape(&shape)) {
      return absl::InvalidArgumentError(
          absl::StrCat("Outfeed with id='", queue, "': the shape ",
                       wanted.shapes[i].DebugString(), " is not fully defined."));
    }
    TF_RETURN_IF_ERROR(check_bytes("IpufeedOutfeedDequeue", i, wanted.dtypes[i]));
    for (std::size_t d = 0; d < in_front.size(); ++d) {
      TF_RETURN_IF_ERROR(shape.InsertDimWithStatus(static_cast<int>(d), in_front[d]));
    }
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(allocate_output(ctx, static_cast<int>(i), shape, &output));
    if (output->TotalBytes() > 0) std::memset(output->data(), 0, output->TotalBytes());
  }
  return absl::OkStatus();
}

void set_outputs(OpKernelContext* ctx, std::vector<Tensor>&& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    ctx->set_output(static_cast<int>(i), std::move(tensors[i]));
  }
}

class OutfeedDequeueOp : public LongKernel {
 public:
  explicit OutfeedDequeueOp(OpKernelConstruction* ctx) : LongKernel(ctx) {
    std::int64_t ordinal = -1;
    OP_REQUIRES_OK(ctx, read_wanted(ctx, &wanted_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("wait_ordinal", &ordinal));
    wait_ordinal_ = static_cast<int>(std::clamp<std::int64_t>(ordinal, -1, kDevices));
  }

 private:
  bool takes_long() const override { return wait_ordinal_ >= 0; }

  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0}));
    const std::int64_t number = number_of(ctx, 0);
    if (wait_ordinal_ >= 0) {
      StepCancelled cancelled(ctx, wake_idle_waiters);
      std::shared_ptr<Outfeed> feed;
      const bool idle =
          find_outfeed(number, &feed).ok()
              ? feed->wait_for_all(ctx->step_id(), kNoDeadline, cancelled.flag())
              : wait_until_idle(wait_ordinal_, ctx->step_id(), kNoDeadline,
                                cancelled.flag());
      if (!idle) return absl::CancelledError("the step was cancelled");
    }
    return read(ctx, number);
  }

  absl::Status read(OpKernelContext* ctx, std::int64_t number) const {
    if (run_mode() == RunMode::kZeros) {
      return write_zeros(ctx, wanted_, {1}, outfeed_name(number));
    }
    std::shared_ptr<Outfeed> feed;
    absl::Status status = find_outfeed(number, &feed);
    if (!status.ok() && !absl::IsNotFound(status)) return status;
    warn_unless_executed(number, feed.get());
    if (feed == nullptr) return write_zeros(ctx, wanted_, {0}, outfeed_name(number));
    std::vector<Tensor> tensors;
    TF_RETURN_IF_ERROR(feed->take_all(
        [&](const ResultSignature& stored) {
          return wanted_.check(stored, feed->name());
        },
        &tensors));
    if (tensors.empty()) {
      const int replicas = feed->replicas_of_results();
      return replicas > 1 ? write_zeros(ctx, wanted_, {0, replicas}, feed->name())
                          : write_zeros(ctx, wanted_, {0}, feed->name());
    }
    set_outputs(ctx, std::move(tensors));
    return absl::OkStatus();
  }

  int wait_ordinal_ = -1;
  ResultsWanted wanted_;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedOutfeedDequeue").Device(tensorflow::DEVICE_CPU),
                        OutfeedDequeueOp);

REGISTER_OP("IpufeedOutfeedLast")
    .Input("number: int64")
    .Attr("dtypes: list(type) >= 1")
    .Attr("shapes: list(shape) >= 1")
    .Attr("synthetic: bool = false")
    .Attr("replicated: bool = false")
    .Output("results: dtypes")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      return component_shapes(c, /*batched=*/false);
    })
    .Doc(R"doc(
The last result. Waits for the end of the program that makes it.

synthetic: the program transfers no results, so there is none.
replicated: several replicas may have enqueued, and then it is [replicas, *shape].
)doc");

class OutfeedLastOp : public LongKernel {
 public:
  explicit OutfeedLastOp(OpKernelConstruction* ctx) : LongKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("synthetic", &synthetic_));
    OP_REQUIRES_OK(ctx, read_wanted(ctx, &wanted_));
  }

 private:
  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0}));
    if (synthetic_) {
      // Graphcore's message, its spelling included.
      return absl::FailedPreconditionError(
          "Trying to get the last value from an outfeed queue when using synthethic "
          "data. This is not supported.");
    }
    const std::int64_t number = number_of(ctx, 0);
    if (run_mode() == RunMode::kZeros) {
      return write_zeros(ctx, wanted_, {}, outfeed_name(number));
    }
    std::shared_ptr<Outfeed> feed;
    const absl::Status found = find_outfeed(number, &feed);
    if (absl::IsNotFound(found)) {
      // An outfeed without an enqueued result gives the proper error.
      feed = std::make_shared<Outfeed>(number, outfeed_name(number), OutfeedMode::kLast,
                                       1, 0);
    } else {
      TF_RETURN_IF_ERROR(found);
    }
    std::vector<Tensor> tensors;
    {
      StepCancelled cancelled(ctx, [&feed] { feed->wake_last(); });
      TF_RETURN_IF_ERROR(feed->last(
          ctx->step_id(), kNoDeadline, cancelled.flag(),
          [&](const ResultSignature& stored) {
            return wanted_.check(stored, feed->name());
          },
          &tensors));
    }
    set_outputs(ctx, std::move(tensors));
    return absl::OkStatus();
  }

  bool synthetic_ = false;
  ResultsWanted wanted_;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedOutfeedLast").Device(tensorflow::DEVICE_CPU),
                        OutfeedLastOp);

REGISTER_OP("IpufeedOutfeedDelete")
    .Input("number: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle number;
      return c->WithRank(c->input(0), 0, &number);
    })
    .Doc("Forgets an outfeed and what has not been dequeued of it.");

class OutfeedDeleteOp : public Kernel {
 public:
  using Kernel::Kernel;

 private:
  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0}));
    return remove_outfeed(number_of(ctx, 0));
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedOutfeedDelete").Device(tensorflow::DEVICE_CPU),
                        OutfeedDeleteOp);

}  // namespace
}  // namespace ipufeed
