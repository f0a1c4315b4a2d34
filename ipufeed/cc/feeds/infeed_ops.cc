// The ops of infeeds, and their kernels for TensorFlow's executor. What they become in
// a compiled program is in queue_lowering.cc.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/kernels.h"
#include "core/ipus.h"
#include "data/feeder.h"
#include "feeds/feed_table.h"
#include "feeds/infeed.h"
#include "feeds/lease.h"
#include "feeds/queue_ops.h"
#include "run/device_config.h"
#include "run/program.h"
#include "run/step_program.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"

namespace ipufeed {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;

// The dtypes that the hardware's streams carry.
const DataType kFeedTypes[] = {tensorflow::DT_INT32, tensorflow::DT_FLOAT,
                               tensorflow::DT_HALF,  tensorflow::DT_BOOL,
                               tensorflow::DT_INT8,  tensorflow::DT_UINT8};

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
    .SetShapeFn([](InferenceContext* c) -> absl::Status {
      tensorflow::shape_inference::ShapeHandle scalar;
      for (int i = 0; i < c->num_inputs(); ++i) {
        TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &scalar));
      }
      return absl::OkStatus();
    })
    .Doc(R"doc(
Makes an infeed and its dataset's iterator, which the first program to use it reads.

threads: 0 for the default.
ordinal: of the device that reads; its number of IPUs is that of the rings.
)doc");

// The queue is given by input tensors: TensorFlow keeps a kernel for each set of
// attributes permanently.
class InfeedCreateOp : public LongKernel {
 public:
  explicit InfeedCreateOp(OpKernelConstruction* ctx) : LongKernel(ctx) {
    std::int64_t capacity = 0;
    std::int64_t threads = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtypes", &dtypes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("capacity", &capacity));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("threads", &threads));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("null_data", &null_data_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ordinal", &ordinal_));
    OP_REQUIRES_OK(ctx, check_signature(dtypes_.size(), shapes_.size()));
    OP_REQUIRES_OK(ctx, check_capacity(capacity));
    OP_REQUIRES(ctx, ordinal_ >= 0 && ordinal_ < kDevices,
                absl::InvalidArgumentError(absl::StrCat(
                    "`ordinal` must be in [0, ", kDevices, "), got ", ordinal_, ".")));
    OP_REQUIRES(
        ctx, threads <= kMostThreads,
        absl::InvalidArgumentError(absl::StrCat("`threads` must be at most ",
                                                kMostThreads, ", got ", threads, ".")));
    options_.capacity = static_cast<std::size_t>(capacity);
    options_.small_capacity = 0;  // the depth is guaranteed to the user
    options_.threads = static_cast<int>(threads);
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

  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {1, 2}));
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
    const auto rings = static_cast<std::size_t>(ipus_of(static_cast<int>(ordinal_)));
    // While programs are only compiled, nothing is read.
    if (!null_data_ && run_mode() == RunMode::kRun) {
      FeederOptions options = options_;
      options.number = number;
      options.rings = rings;
      options.name = feed;
      options.held = true;  // resources of the dataset may not be initialised yet
      TF_RETURN_IF_ERROR(Feeder::start(ctx, dataset, options, &feeder));
      feeders_.add(ctx, feeder);
    }
    absl::Status status = guarded("the making of an infeed", [&]() -> absl::Status {
      auto infeed =
          std::make_shared<Infeed>(number, feed, std::move(elements), feeder, rings);
      TF_RETURN_IF_ERROR(infeed->make_constants());
      return add_infeed(infeed);
    });
    if (!status.ok() && feeder != nullptr) feeder->finish(ctx, kGraceNs);
    return status;
  }

  static constexpr std::int64_t kGraceNs = 100'000'000;
  static constexpr std::int64_t kMostThreads = 1 << 16;

  std::vector<DataType> dtypes_;
  std::vector<PartialTensorShape> shapes_;
  FeederOptions options_;
  bool null_data_ = false;
  std::int64_t ordinal_ = 0;
  SessionFeeders feeders_;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedInfeedCreate").Device(tensorflow::DEVICE_CPU),
                        InfeedCreateOp);

REGISTER_OP("IpufeedInfeedDelete")
    .Input("number: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) -> absl::Status {
      tensorflow::shape_inference::ShapeHandle scalar;
      for (int i = 0; i < c->num_inputs(); ++i) {
        TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &scalar));
      }
      return absl::OkStatus();
    })
    .Doc("Stops an infeed's feeder and forgets what it has read ahead.");

class InfeedDeleteOp : public LongKernel {
 public:
  using LongKernel::LongKernel;

 private:
  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0}));
    std::shared_ptr<Infeed> feed;
    TF_RETURN_IF_ERROR(remove_infeed(number_of(ctx, 0), &feed));
    // Python code inside the dataset may take longer: then the device's keeper has it.
    if (feed->feeder() != nullptr) feed->feeder()->finish(ctx, kGraceNs);
    return absl::OkStatus();
  }

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
      return token_shape_fn(c, {0, 1});
    })
    .Doc("The next element of an infeed. Waits for it.");

class DequeueOp : public Kernel {
 public:
  explicit DequeueOp(OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtypes", &dtypes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes_));
    OP_REQUIRES_OK(ctx, check_signature(dtypes_.size(), shapes_.size()));
  }

 private:
  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0, 1}));
    std::vector<Tensor> components;
    TF_RETURN_IF_ERROR(with_step_program(ctx, [&](Program& program) -> absl::Status {
      Infeed* feed = nullptr;
      TF_RETURN_IF_ERROR(lease_infeed(program, number_of(ctx, 0), &feed));
      TF_RETURN_IF_ERROR(check(*feed));
      return feed->dequeue(program, 0, &components);
    }));
    for (std::size_t i = 0; i < components.size(); ++i) {
      ctx->set_output(static_cast<int>(i), std::move(components[i]));
    }
    ctx->set_output(ctx->num_outputs() - 1, ctx->input(1));
    return absl::OkStatus();
  }

  // Before an element is taken: whether it is what the op gives.
  absl::Status check(const Infeed& feed) const {
    const Signature& elements = feed.signature();
    bool same = dtypes_ == elements.dtypes;
    for (std::size_t i = 0; same && i < shapes_.size(); ++i) {
      same = shapes_[i].IsCompatibleWith(elements.shapes[i]);
    }
    if (same) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "The program was built for another infeed: the elements of queue '",
        feed.name(), "' are ", elements.describe(), "."));
  }

  std::vector<DataType> dtypes_;
  std::vector<PartialTensorShape> shapes_;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedDequeue").Device(tensorflow::DEVICE_CPU),
                        DequeueOp);

}  // namespace
}  // namespace ipufeed
