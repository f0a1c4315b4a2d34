// The op that measures a program by what it enqueues.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/cancellation.h"
#include "base/kernels.h"
#include "feeds/feed_stats.h"
#include "feeds/feed_table.h"
#include "feeds/outfeed_consumer.h"
#include "measure/measurement_outputs.h"
#include "measure/measurement_runs.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::TensorShape;

REGISTER_OP("IpufeedMeasureOutfeed")
    .Input("run: int64")
    .Input("infeed: int64")
    .Input("outfeed: int64")
    .Input("requested_ns: int64")
    .Attr("epochs: int >= 0 = 0")
    .Attr("elements_per_epoch: int >= 0 = 0")
    .Attr("seconds_ns: int >= 0 = 0")
    .Attr("epoch_per_pass: bool = false")
    .Attr("component: int >= 0 = 0")
    .Attr("words: int >= 1 = 1")
    .Attr("element_bytes: int >= 0 = 0")
    .Attr("element_samples: int >= 0 = 0")
    .Attr("read_ns: int >= 0 = 0")
    .Attr("most_entries: int >= 2 = 8192")
    .Output("names: string")
    .Output("values: int64")
    .Output("epoch_table: int64")
    .Output("stamps: int64")
    .Output("failure_code: int64")
    .Output("failure_message: string")
    .Output("marks: int64")
    .Output("latencies_ns: int64")
    .Output("rows: int64")
    .Output("queues: int64")
    .Output("stored_bytes: int64")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) -> absl::Status {
      tensorflow::shape_inference::ShapeHandle scalar;
      for (int i = 0; i < c->num_inputs(); ++i) {
        TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &scalar));
      }
      return tensorflow::shape_inference::UnknownShape(c);
    })
    .Doc(R"doc(
Measures programs by their results; see outfeed_consumer.h and measurement.h for the
attributes.

run: a number of ipufeed_run_new, through which the caller says when passes and programs
end. infeed, outfeed: the queues' numbers. requested_ns: when the dataset's iterator was
requested. The first seven outputs are those of IpufeedMeasureDataset; a failure is none
of the consumer's. latencies_ns: of results that it slept for. rows: [n, words], of
several words. queues: [2, 10], what infeed and outfeed had counted at the first result.
stored_bytes: the most that lay unread behind the outfeed's ring.
)doc");

class MeasureOutfeedOp : public LongKernel {
 public:
  explicit MeasureOutfeedOp(OpKernelConstruction* ctx) : LongKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("epochs", &options_.epochs));
    OP_REQUIRES_OK(ctx,
                   ctx->GetAttr("elements_per_epoch", &options_.elements_per_epoch));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("seconds_ns", &options_.seconds_ns));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("epoch_per_pass", &options_.epoch_per_pass));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("most_entries", &options_.most_entries));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("component", &results_.component));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("words", &results_.words));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("element_bytes", &results_.element_bytes));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("element_samples", &results_.element_samples));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("read_ns", &results_.read_ns));
    OP_REQUIRES(
        ctx, results_.words <= kMostWords,
        absl::InvalidArgumentError(absl::StrCat("`words` must be in [1, ", kMostWords,
                                                "], got ", results_.words, ".")));
    OP_REQUIRES(ctx, options_.most_entries % 2 == 0,
                absl::InvalidArgumentError(absl::StrCat(
                    "`most_entries` must be even, got ", options_.most_entries, ".")));
  }

 private:
  static constexpr std::int64_t kMostWords = 1024;

  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0, 1, 2, 3}));
    const auto number = [ctx](int i) { return ctx->input(i).scalar<std::int64_t>()(); };
    const std::shared_ptr<MeasurementRun> run = run_of(number(0));
    std::shared_ptr<Outfeed> feed;
    TF_RETURN_IF_ERROR(find_outfeed(number(2), &feed));
    if (feed->mode() != OutfeedMode::kAll) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Outfeed queue '", feed->name(),
          "' keeps the last result only: there is none for each element."));
    }
    Measurement m;
    m.requested_ns = number(3);
    ResultsFound found;
    {
      Cancellation cancellation;
      const auto on_cancel = [run] { run->stop(); };
      if (!cancellation.watch(ctx->cancellation_manager(), on_cancel)) on_cancel();
      TF_RETURN_IF_ERROR(
          measure_outfeed(number(1), feed, options_, results_, run, &m, &found));
    }
    TF_RETURN_IF_ERROR(set_outputs(ctx, m));
    return set_found(ctx, found);
  }

  absl::Status set_found(OpKernelContext* ctx, const ResultsFound& found) const {
    int next = kMeasurementOutputs;
    const auto count = static_cast<std::int64_t>(found.latencies_ns.size());
    TF_RETURN_IF_ERROR(
        set_numbers(ctx, next++, found.latencies_ns, TensorShape({count})));
    const auto rows = static_cast<std::int64_t>(found.rows.size()) / results_.words;
    TF_RETURN_IF_ERROR(
        set_numbers(ctx, next++, found.rows, TensorShape({rows, results_.words})));
    std::vector<std::int64_t> queues;
    for (const FeedStats& stats : {found.infeed, found.outfeed}) {
      const auto numbers = numbers_of(stats);
      queues.insert(queues.end(), numbers.begin(), numbers.end());
    }
    const auto columns = static_cast<std::int64_t>(queues.size()) / 2;
    TF_RETURN_IF_ERROR(set_numbers(ctx, next++, queues, TensorShape({2, columns})));
    return set_numbers(ctx, next, {found.stored_bytes}, TensorShape({}));
  }

  MeasurementOptions options_;
  ResultsMeasured results_;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedMeasureOutfeed").Device(tensorflow::DEVICE_CPU),
                        MeasureOutfeedOp);

}  // namespace
}  // namespace ipufeed
