// The ops of outfeeds, and their kernels for TensorFlow's executor. What they become in
// a compiled program is in queue_xla_ops.cc.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "feed_table.h"
#include "outfeed.h"
#include "program.h"
#include "program_events.h"
#include "queue_ops.h"
#include "step_program.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/platform/logging.h"

namespace ipufeed {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
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
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("Gives an element to an outfeed; last: which keeps the last one only.");

class EnqueueOp : public OpKernel {
 public:
  explicit EnqueueOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    bool last = false;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("last", &last));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("capacity", &capacity_));
    mode_ = last ? OutfeedMode::kLast : OutfeedMode::kAll;
  }

  void Compute(OpKernelContext* ctx) override {
    const int components = ctx->num_inputs() - 2;
    ResultElement element;
    for (int i = 0; i < components; ++i) element.push_back(ctx->input(i));
    OP_REQUIRES_OK(ctx, with_step_program(ctx, [&](Program& program) -> absl::Status {
                     Outfeed* feed = nullptr;
                     TF_RETURN_IF_ERROR(
                         program.outfeed(number_of(ctx, components), mode_,
                                         static_cast<std::size_t>(capacity_), &feed));
                     return feed->enqueue(program, std::move(element));
                   }));
    ctx->set_output(0, ctx->input(components + 1));
  }

 private:
  OutfeedMode mode_ = OutfeedMode::kAll;
  std::int64_t capacity_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedEnqueue").Device(tensorflow::DEVICE_CPU),
                        EnqueueOp);

// Whether the step has been cancelled, for a kernel that waits on a thread of its own.
class StepCancelled {
 public:
  explicit StepCancelled(OpKernelContext* ctx) : manager_(ctx->cancellation_manager()) {
    if (manager_ == nullptr) return;
    token_ = manager_->get_cancellation_token();
    if (!manager_->RegisterCallback(token_, [this] { cancelled_ = true; })) {
      cancelled_ = true;
    }
  }
  ~StepCancelled() {
    if (manager_ != nullptr) manager_->DeregisterCallback(token_);
  }
  StepCancelled(const StepCancelled&) = delete;
  StepCancelled& operator=(const StepCancelled&) = delete;

  const std::atomic<bool>& flag() const { return cancelled_; }

 private:
  tensorflow::CancellationManager* const manager_;
  tensorflow::CancellationToken token_ = tensorflow::CancellationManager::kInvalidToken;
  std::atomic<bool> cancelled_{false};
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

// What a look at an outfeed gives while programs are only compiled: one result of
// zeros.
absl::Status write_zeros(OpKernelContext* ctx, const std::vector<TensorShape>& shapes,
                         bool batched) {
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    TensorShape shape = shapes[i];
    if (batched) shape.InsertDim(0, 1);
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(static_cast<int>(i), shape, &output));
    std::memset(output->data(), 0, output->TotalBytes());
  }
  return absl::OkStatus();
}

// The outfeeds that somebody has been warned about. Once each: a thread that polls
// until the program begins is no reason for a flood.
bool warns_first(std::int64_t number) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const warned = new std::set<std::int64_t>;
  std::lock_guard lock(*mutex);
  return warned->insert(number).second;
}

class OutfeedDequeueOp : public AsyncOpKernel {
 public:
  explicit OutfeedDequeueOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    std::int64_t ordinal = -1;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &partial_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("wait_ordinal", &ordinal));
    wait_ordinal_ = static_cast<int>(ordinal);
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    const std::int64_t number = number_of(ctx, 0);
    if (wait_ordinal_ < 0) {
      finish(ctx, read(ctx, number), done);
      return;
    }
    // On a thread of its own: the host's pool is not for waiting.
    ctx->env()->SchedClosure([this, ctx, number, done = std::move(done)] {
      bool idle = false;
      {
        StepCancelled cancelled(ctx);
        std::shared_ptr<Outfeed> feed;
        idle = find_outfeed(number, &feed).ok()
                   ? feed->wait_for_all(ctx->step_id(), kNoDeadline, cancelled.flag())
                   : wait_until_idle(wait_ordinal_, ctx->step_id(), kNoDeadline,
                                     cancelled.flag());
      }
      finish(ctx,
             idle ? read(ctx, number) : absl::CancelledError("the step was cancelled"),
             done);
    });
  }

 private:
  static void finish(OpKernelContext* ctx, const absl::Status& status,
                     const DoneCallback& done) {
    if (!status.ok()) ctx->SetStatus(status);
    done();
  }

  absl::Status shapes(std::int64_t number, std::vector<TensorShape>* result) const {
    for (const auto& partial : partial_) {
      TensorShape shape;
      if (!partial.AsTensorShape(&shape)) {
        return absl::InvalidArgumentError(
            absl::StrCat("Outfeed with id='", outfeed_name(number), "': the shape ",
                         partial.DebugString(), " is not fully defined."));
      }
      result->push_back(shape);
    }
    return absl::OkStatus();
  }

  absl::Status read(OpKernelContext* ctx, std::int64_t number) const {
    std::vector<TensorShape> result_shapes;
    TF_RETURN_IF_ERROR(shapes(number, &result_shapes));
    if (run_mode() == RunMode::kZeros) return write_zeros(ctx, result_shapes, true);
    std::shared_ptr<Outfeed> feed;
    const absl::Status status = find_outfeed(number, &feed);
    if (!status.ok() && !absl::IsNotFound(status)) return status;
    const bool executed = feed != nullptr && (feed->runs() != 0 || feed->taken());
    if (!executed && warns_first(number)) {
      LOG(WARNING) << "Trying to dequeue elements from the outfeed queue with id="
                   << outfeed_name(number)
                   << " which has not executed yet. Make sure to execute the program "
                      "with the outfeed before trying to dequeue an outfeed.";
    }
    if (feed == nullptr) return ResultStore().write_outputs(ctx, result_shapes);
    // Of several replicas, each component of a result is [replicas, *shape].
    const int replicas = feed->replicas();
    for (auto& shape : result_shapes) {
      if (replicas > 1) shape.InsertDim(0, replicas);
    }
    return feed->dequeue().write_outputs(ctx, result_shapes);
  }

  int wait_ordinal_ = -1;
  std::vector<PartialTensorShape> partial_;
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

class OutfeedLastOp : public AsyncOpKernel {
 public:
  explicit OutfeedLastOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("synthetic", &synthetic_));
    std::vector<PartialTensorShape> shapes;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes));
    for (const auto& partial : shapes) {
      partial.AsTensorShape(&shapes_.emplace_back());
    }
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    // On a thread of its own: it may wait, and the host's pool is not for that.
    ctx->env()->SchedClosure([this, ctx, done = std::move(done)] {
      const absl::Status status = read(ctx);
      if (!status.ok()) ctx->SetStatus(status);
      done();
    });
  }

 private:
  absl::Status read(OpKernelContext* ctx) const {
    if (synthetic_) {
      // The original's words, its spelling included.
      return absl::FailedPreconditionError(
          "Trying to get the last value from an outfeed queue when using synthethic "
          "data. This is not supported.");
    }
    if (run_mode() == RunMode::kZeros) return write_zeros(ctx, shapes_, false);
    const std::int64_t number = number_of(ctx, 0);
    std::shared_ptr<Outfeed> feed;
    const absl::Status found = find_outfeed(number, &feed);
    if (absl::IsNotFound(found)) {
      // An outfeed that nothing has been enqueued to answers as one should.
      feed = std::make_shared<Outfeed>(number, outfeed_name(number), OutfeedMode::kLast,
                                       1, 0);
    } else {
      TF_RETURN_IF_ERROR(found);
    }
    ResultElement element;
    {
      StepCancelled cancelled(ctx);
      TF_RETURN_IF_ERROR(feed->last(ctx->step_id(), cancelled.flag(), &element));
    }
    for (std::size_t i = 0; i < element.size(); ++i) {
      ctx->set_output(static_cast<int>(i), std::move(element[i]));
    }
    return absl::OkStatus();
  }

  bool synthetic_ = false;
  std::vector<TensorShape> shapes_;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedOutfeedLast").Device(tensorflow::DEVICE_CPU),
                        OutfeedLastOp);

REGISTER_OP("IpufeedOutfeedDelete")
    .Input("number: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Forgets an outfeed and what has not been dequeued of it.");

class OutfeedDeleteOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, remove_outfeed(number_of(ctx, 0)));
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedOutfeedDelete").Device(tensorflow::DEVICE_CPU),
                        OutfeedDeleteOp);

}  // namespace
}  // namespace ipufeed
