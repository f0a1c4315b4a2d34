// The ops of the queues, and their kernels for TensorFlow's executor. What they become
// in a compiled program is in queue_xla_ops.cc.
//
// A queue op takes the number of its feed as an input, so that compiled programs do not
// depend on it, and a token, which it also gives: whoever builds a graph hands the
// token of one queue op to the next, and so no compiler can change their order. (XLA
// keeps side effects, but not the order of those that do not depend on each other.)

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "chips.h"
#include "feed_table.h"
#include "feeder.h"
#include "infeed.h"
#include "outfeed.h"
#include "program.h"
#include "program_events.h"
#include "step_program.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/logging.h"

namespace ipufeed {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::DataType;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// The dtypes that the hardware's streams carry.
const DataType kFeedTypes[] = {tensorflow::DT_INT32, tensorflow::DT_FLOAT,
                               tensorflow::DT_HALF,  tensorflow::DT_BOOL,
                               tensorflow::DT_INT8,  tensorflow::DT_UINT8};

absl::Status component_shapes(InferenceContext* c, bool batched) {
  std::vector<PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
  bool replicated = false;  // an attribute of those that read results
  if (c->GetAttr("replicated", &replicated).ok() && replicated) {
    for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->UnknownShape());
    return absl::OkStatus();
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    if (batched) {
      TF_RETURN_IF_ERROR(
          c->Concatenate(c->Vector(InferenceContext::kUnknownDim), shape, &shape));
    }
    c->set_output(static_cast<int>(i), shape);
  }
  return absl::OkStatus();
}

std::int64_t number_of(OpKernelContext* ctx, int input) {
  return ctx->input(input).scalar<std::int64_t>()();
}

REGISTER_OP("IpufeedHostNumber")
    .Attr("number: int")
    .Output("value: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(
        "A number from the host. Not a constant, so that nobody folds it into a "
        "program.");

class HostNumberOp : public OpKernel {
 public:
  explicit HostNumberOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("number", &number_));
  }
  void Compute(OpKernelContext* ctx) override {
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &output));
    output->scalar<std::int64_t>()() = number_;
  }

 private:
  std::int64_t number_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedHostNumber").Device(tensorflow::DEVICE_CPU),
                        HostNumberOp);

REGISTER_OP("IpufeedInfeedCreate")
    .Input("dataset: variant")
    .Input("number: int64")
    .Input("feed_id: string")
    .Attr("dtypes: list(type) >= 1")
    .Attr("shapes: list(shape) >= 1")
    .Attr("capacity: int >= 1 = 32")
    .Attr("threads: int >= 0 = 0")
    .Attr("null_data: bool = false")
    .Attr("ordinal: int = 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Makes an infeed and starts to read its dataset.

threads: 0 for the default.
ordinal: of the device that reads; its number of IPUs is that of the rings.
)doc");

// Which queue it is comes in as tensors: TensorFlow keeps a kernel for each set of
// attributes, for ever.
class InfeedCreateOp : public AsyncOpKernel {
 public:
  explicit InfeedCreateOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    std::int64_t capacity = 0;
    std::int64_t threads = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtypes", &dtypes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("capacity", &capacity));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("threads", &threads));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("null_data", &null_data_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ordinal", &ordinal_));
    options_.capacity = static_cast<std::size_t>(capacity);
    options_.small_capacity = 0;  // the depth is a promise
    options_.threads = static_cast<int>(threads);
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    // On a thread of its own: making an iterator may run the dataset's functions.
    ctx->env()->SchedClosure([this, ctx, done = std::move(done)] {
      const absl::Status status = create(ctx);
      if (!status.ok()) ctx->SetStatus(status);
      done();  // may destroy this
    });
  }

 private:
  absl::Status signature(const std::string& feed, Signature* result) const {
    for (const auto& partial : shapes_) {
      TensorShape shape;
      if (!partial.AsTensorShape(&shape)) {
        return absl::InvalidArgumentError(
            absl::StrCat("Infeed with id='", feed, "': the shape ",
                         partial.DebugString(), " is not fully defined."));
      }
      if (shape.num_elements() == 0) {
        return absl::InvalidArgumentError(
            "Detected an input tensor to an infeed queue with a dimension of size 0. "
            "Please remove it from the inputs.");
      }
      result->shapes.push_back(shape);
    }
    for (std::size_t i = 0; i < dtypes_.size(); ++i) {
      TF_RETURN_IF_ERROR(check_type(dtypes_[i], i, feed));
    }
    result->dtypes = dtypes_;
    return absl::OkStatus();
  }

  absl::Status check_type(DataType dtype, std::size_t index,
                          const std::string& feed) const {
    for (const DataType allowed : kFeedTypes) {
      if (dtype == allowed) return absl::OkStatus();
    }
    std::vector<std::string> names;
    for (const DataType allowed : kFeedTypes) {
      names.push_back(tensorflow::DataTypeString(allowed));
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "Unsupported datatype ", tensorflow::DataTypeString(dtype), " on index ", index,
        " of feed operation ", name(), " with feed id '", feed,
        "'. You should use a tf.DataSet.map() operation to cast the element into one "
        "of "
        "(",
        absl::StrJoin(names, ", "), ")."));
  }

  absl::Status create(OpKernelContext* ctx) {
    tensorflow::data::DatasetBase* dataset = nullptr;
    TF_RETURN_IF_ERROR(
        tensorflow::data::GetDatasetFromVariantTensor(ctx->input(0), &dataset));
    const std::int64_t number = number_of(ctx, 1);
    const std::string feed = ctx->input(2).scalar<tensorflow::tstring>()();
    Signature elements;
    TF_RETURN_IF_ERROR(signature(feed, &elements));
    // Before a feeder starts, though another thread may still be the first to add.
    TF_RETURN_IF_ERROR(check_no_infeed(number));
    std::shared_ptr<Feeder> feeder;
    const auto rings = static_cast<std::size_t>(chips_of(static_cast<int>(ordinal_)));
    // While programs are only compiled, nothing is read.
    if (!null_data_ && run_mode() == RunMode::kRun) {
      FeederOptions options = options_;
      options.number = number;
      options.rings = rings;
      options.name = feed;
      TF_RETURN_IF_ERROR(Feeder::start(ctx, dataset, options, &feeder));
    }
    auto infeed =
        std::make_shared<Infeed>(number, feed, std::move(elements), feeder, rings);
    const absl::Status status = add_infeed(std::move(infeed));
    if (!status.ok() && feeder != nullptr) feeder->finish(ctx, kGraceNs);
    return status;
  }

  static constexpr std::int64_t kGraceNs = 100'000'000;

  std::vector<DataType> dtypes_;
  std::vector<PartialTensorShape> shapes_;
  FeederOptions options_;
  bool null_data_ = false;
  std::int64_t ordinal_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedInfeedCreate").Device(tensorflow::DEVICE_CPU),
                        InfeedCreateOp);

REGISTER_OP("IpufeedInfeedDelete")
    .Input("number: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Stops an infeed's feeder and forgets what it has read ahead.");

class InfeedDeleteOp : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    ctx->env()->SchedClosure([this, ctx, done = std::move(done)] {
      std::shared_ptr<Infeed> feed;
      const absl::Status status = remove_infeed(number_of(ctx, 0), &feed);
      if (!status.ok()) {
        ctx->SetStatus(status);
      } else if (feed->feeder() != nullptr) {
        // Python code inside the dataset may take longer: then the device's keeper has
        // it.
        feed->feeder()->finish(ctx, kGraceNs);
      }
      done();
    });
  }

 private:
  static constexpr std::int64_t kGraceNs = 2'000'000'000;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedInfeedDelete").Device(tensorflow::DEVICE_CPU),
                        InfeedDeleteOp);

REGISTER_OP("IpufeedDequeue")
    .Input("feed: int64")
    .Input("token: uint32")
    .Output("components: dtypes")
    .Output("next: uint32")
    .Attr("dtypes: list(type) >= 1")
    .Attr("shapes: list(shape) >= 1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(component_shapes(c, /*batched=*/false));
      c->set_output(c->num_outputs() - 1, c->Scalar());
      return absl::OkStatus();
    })
    .Doc("The next element of an infeed. Waits for it.");

class DequeueOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::vector<Tensor> components;
    OP_REQUIRES_OK(ctx, with_step_program(ctx, [&](Program& program) -> absl::Status {
                     Infeed* feed = nullptr;
                     TF_RETURN_IF_ERROR(program.infeed(number_of(ctx, 0), &feed));
                     return feed->dequeue(program, 0, &components);
                   }));
    for (std::size_t i = 0; i < components.size(); ++i) {
      ctx->set_output(static_cast<int>(i), std::move(components[i]));
    }
    ctx->set_output(ctx->num_outputs() - 1, ctx->input(1));
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedDequeue").Device(tensorflow::DEVICE_CPU),
                        DequeueOp);

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
