// The ops that measure a dataset.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset_op.h"
#include "measure/consumer.h"
#include "measure/measurement_outputs.h"
#include "measure/measurement_runs.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;
using tensorflow::data::DatasetBase;

REGISTER_OP("IpufeedMeasureDataset")
    .Input("dataset: variant")
    .Input("run: int64")
    .Attr("epochs: int >= 0 = 0")
    .Attr("elements_per_epoch: int >= 0 = 0")
    .Attr("epoch_ns: int >= 1 = 1000000000")
    .Attr("seconds_ns: int >= 0 = 0")
    .Attr("passes: int >= 1 = 1")
    .Attr("epoch_per_pass: bool = false")
    .Attr("copy: bool = true")
    .Attr("most_entries: int >= 2 = 8192")
    .Attr("mark_ns: int >= 1 = 10000000")
    .Attr("most_marks: int >= 2 = 4096")
    .Attr("traced: bool = false")
    .Attr("capacity: int >= 1 = 32")
    .Attr("finalize: bool = true")
    .Attr("modelled: bool = false")
    .Attr("bare: bool = false")
    .Attr("warm_up: int >= 0 = 0")
    .Output("names: string")
    .Output("values: int64")
    .Output("epoch_table: int64")
    .Output("stamps: int64")
    .Output("failure_code: int64")
    .Output("failure_message: string")
    .Output("marks: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc(R"doc(
Measures a dataset through the feeder and its ring; see measurement.h for the attributes.

names, values: the counters. epoch_table: [n, 5] of elements, bytes, samples, start and
end in monotonic ns; a row holds epochs_per_entry neighbouring epochs, so that n is at
most most_entries. stamps: when each element was there. failure_code is 0, or the
code of what the dataset failed with. marks: [n, 7], n at most most_marks: a time, and
up to it elements, bytes, ns starved, ns blocked, the sum of the feed's depths and how
many depths that are.
)doc");

class MeasureDatasetOp : public LongDatasetOp {
 public:
  explicit MeasureDatasetOp(OpKernelConstruction* ctx) : LongDatasetOp(ctx) {
    std::int64_t capacity = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("epochs", &options_.epochs));
    OP_REQUIRES_OK(ctx,
                   ctx->GetAttr("elements_per_epoch", &options_.elements_per_epoch));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("epoch_ns", &options_.epoch_ns));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("seconds_ns", &options_.seconds_ns));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("passes", &feeder_.passes));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("epoch_per_pass", &options_.epoch_per_pass));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("copy", &options_.copy));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("most_entries", &options_.most_entries));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("mark_ns", &options_.mark_ns));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("most_marks", &options_.most_marks));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("traced", &options_.traced));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("capacity", &capacity));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("finalize", &feeder_.finalize));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("modelled", &feeder_.modelled));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("bare", &bare_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("warm_up", &warm_up_));
    OP_REQUIRES(ctx, capacity <= 65536,
                absl::InvalidArgumentError(absl::StrCat(
                    "`capacity` must be in [1, 65536], got ", capacity, ".")));
    OP_REQUIRES(ctx, options_.most_entries % 2 == 0,
                absl::InvalidArgumentError(absl::StrCat(
                    "`most_entries` must be even, got ", options_.most_entries, ".")));
    OP_REQUIRES(ctx, options_.most_marks % 2 == 0,
                absl::InvalidArgumentError(absl::StrCat(
                    "`most_marks` must be even, got ", options_.most_marks, ".")));
    feeder_.capacity = static_cast<std::size_t>(capacity);
    if (options_.traced) feeder_.number = 0;
  }

 private:
  absl::Status run(OpKernelContext* ctx, DatasetBase* dataset) override {
    Measurement m;
    if (bare_) {
      TF_RETURN_IF_ERROR(measure_bare(ctx, dataset, feeder_.finalize, warm_up_,
                                      options_.elements_per_epoch, &m));
    } else {
      TF_RETURN_IF_ERROR(check_scalars(ctx, {1}));
      const auto number = ctx->input(1).scalar<std::int64_t>()();
      TF_RETURN_IF_ERROR(
          measure(ctx, dataset, feeder_, options_, run_of(number), nullptr, &m));
    }
    return set_outputs(ctx, m);
  }

  FeederOptions feeder_;
  MeasurementOptions options_;
  bool bare_ = false;
  std::int64_t warm_up_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedMeasureDataset").Device(tensorflow::DEVICE_CPU),
                        MeasureDatasetOp);

REGISTER_OP("IpufeedDatasetBenchmark")
    .Input("dataset: variant")
    .Attr("number_of_epochs: int >= 1")
    .Attr("elements_per_epochs: int >= 1")
    .Attr("print_stats: bool = true")
    .Attr("do_memcpy: bool = true")
    .Output("json: string")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(1));
      return absl::OkStatus();
    })
    .Doc(R"doc(
The classic benchmark: a string tensor of shape [1] with {"epochs": [...]}.

A dataset that ends or fails early is an error, whose message ends with the epochs that
there were, behind "Epochs so far: ".
)doc");

class DatasetBenchmarkOp : public LongDatasetOp {
 public:
  explicit DatasetBenchmarkOp(OpKernelConstruction* ctx) : LongDatasetOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("number_of_epochs", &options_.epochs));
    OP_REQUIRES_OK(ctx,
                   ctx->GetAttr("elements_per_epochs", &options_.elements_per_epoch));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("print_stats", &print_stats_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("do_memcpy", &options_.copy));
    options_.refuse_empty = true;
    options_.most_stamps = 0;
  }

 private:
  absl::Status run(OpKernelContext* ctx, DatasetBase* dataset) override {
    Measurement m;
    const auto on_epoch = [this](std::int64_t number, const Epoch& epoch) {
      const double seconds = static_cast<double>(std::max<std::int64_t>(
                                 1, epoch.end_ns - epoch.start_ns)) /
                             1e9;
      LOG(INFO) << "Dataset iterator completed epoch " << number << ".";
      if (!print_stats_) return;
      LOG(INFO) << "Processed: " << static_cast<double>(epoch.elements) / seconds
                << " elements/second.";
      LOG(INFO) << "Bandwidth: " << static_cast<double>(epoch.bytes) / seconds / 1e9
                << " GB/s.";
    };
    const auto run = std::make_shared<MeasurementRun>();
    TF_RETURN_IF_ERROR(
        measure(ctx, dataset, FeederOptions{}, options_, run, on_epoch, &m));
    const std::string json = to_json(m.epochs);
    if (!m.failure.ok()) {
      return absl::Status(
          m.failure.code(),
          absl::StrCat("The dataset failed at element ", m.elements, " (from 0) of ",
                       options_.epochs * options_.elements_per_epoch, ": ",
                       m.failure.message(), "\nEpochs so far: ", json));
    }
    if (m.elements < options_.epochs * options_.elements_per_epoch) {
      return absl::OutOfRangeError(absl::StrCat(
          "The dataset iterator has reached the end of the dataset after ", m.elements,
          " of ", options_.epochs * options_.elements_per_epoch, " elements (",
          options_.epochs, " epochs of ", options_.elements_per_epoch,
          "). Ask for fewer, or repeat() the dataset.\nEpochs so far: ", json));
    }
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({1}), &output));
    output->flat<tstring>()(0) = json;
    return absl::OkStatus();
  }

  MeasurementOptions options_;
  bool print_stats_ = true;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedDatasetBenchmark").Device(tensorflow::DEVICE_CPU),
                        DatasetBenchmarkOp);

}  // namespace
}  // namespace ipufeed
