#include "measure/consumer.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/cancellation.h"
#include "base/trace.h"
#include "data/payload.h"
#include "measure/tally.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// The delay that the consumer tolerates while elements arrive fast: see wait.h. Its
// stamps do not depend on it. Only for elements that are small: elements that
// accumulate during a nap hold memory that the dataset would otherwise have reused
// while it was still in a cache.
constexpr std::int64_t kConsumerNapNs = 200'000;
// The same where elements are counted, and hold no memory: each wake-up interrupts the
// dataset's threads. A feed of tiny elements is half full long before.
constexpr std::int64_t kCountingNapNs = 5'000'000;

// The time that the op waits for its feeder before it leaves it to the device's keeper.
// Enough to destroy a dataset; too short to notice after Ctrl-C.
constexpr std::int64_t kFeederGraceNs = 100'000'000;

// Bytes of the largest component whose size is in the dataset's element_spec, or 0.
// Memory for it can be mapped before the dataset is started.
std::size_t known_bytes(const tensorflow::data::DatasetBase& dataset) {
  std::size_t largest = 0;
  const auto& shapes = dataset.output_shapes();
  const auto& dtypes = dataset.output_dtypes();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    tensorflow::TensorShape shape;
    if (!shapes[i].AsTensorShape(&shape)) continue;
    if (!tensorflow::DataTypeCanUseMemcpy(dtypes[i])) continue;
    largest = std::max(largest, static_cast<std::size_t>(shape.num_elements()) *
                                    static_cast<std::size_t>(DataTypeSize(dtypes[i])));
  }
  return largest;
}

// The consuming half: counts, copies and stamps the elements of the feed.
//
// The stamp of an element is the time at which a consumer that only copies would have
// it:
//   stamp(n) = max(ready(n), stamp(n - 1)) + time of its copy
// (Lindley's recursion for a queue with one server). ready(n) is taken by the feeder as
// the dataset delivers. The wake-up delays of our own threads and the time of counting
// are therefore in no stamp as long as the feed is not full; a full feed blocks the
// feeder, and so delays ready(n): blocked_ns is that time.
class Consumer {
 public:
  Consumer(const MeasurementOptions& options, MeasurementRun* run,
           const OnEpoch& on_epoch, TransferBuffer buffer, Measurement* out)
      : options_(options),
        out_(out),
        buffer_(std::move(buffer)),
        tally_(options, run, on_epoch, out) {
    out_->stamps.reserve(static_cast<std::size_t>(expected_stamps(options)));
  }

  absl::Status consume(ElementFeed* feed) {
    Element element;
    std::int64_t deadline = kNoDeadline;
    feed->set_reader_nap(options_.copy ? kConsumerNapNs : kCountingNapNs);
    for (;;) {
      const bool traced = options_.traced && traces();
      const std::int64_t asked_ns = traced ? now_ns() : 0;
      const FeedOutcome outcome = feed->pop(&element, deadline);
      const std::int64_t got_ns = traced ? now_ns() : 0;
      const std::int64_t bytes_before = out_->bytes;
      if (outcome == FeedOutcome::kDone) {
        if (options_.epoch_per_pass && element.pass != pass_) tally_.end_epoch();
        pass_ = element.pass;
        TF_RETURN_IF_ERROR(take(&element));
        if (out_->elements == 1) start_steady(*feed, &deadline);
        if (traced) trace(asked_ns, got_ns, out_->bytes - bytes_before);
        if (tally_.must_sample()) sample(*feed);
        if (large_) feed->set_reader_nap(0);
        if (tally_.epoch_is_over()) tally_.end_epoch();
        if (tally_.has_all_epochs()) break;
        if (out_->last_ns >= deadline) break;
      } else if (outcome == FeedOutcome::kFailed) {
        out_->failure = feed->error();
        break;
      } else {
        out_->ended = outcome == FeedOutcome::kEnded;
        break;  // or cancelled, or the time is over
      }
    }
    tally_.end_open_epoch();
    finish(*feed);
    return absl::OkStatus();
  }

 private:
  // Address space for all stamps that are possible; pages as they are written. A
  // growing vector would copy them, and the feed would fill during the copy.
  static std::int64_t expected_stamps(const MeasurementOptions& options) {
    if (options.epochs == 0 || options.elements_per_epoch == 0) {
      return options.most_stamps;
    }
    if (options.epochs > options.most_stamps / options.elements_per_epoch) {
      return options.most_stamps;
    }
    return options.epochs * options.elements_per_epoch;
  }

  absl::Status take(Element* element) {
    const ElementSize size =
        options_.copy ? size_of(element->components) : element->size;
    if (options_.refuse_empty && size.has_empty) {
      return absl::InvalidArgumentError(
          "Detected a tensor in the dataset with a dimension of size 0. Please "
          "remove it from the inputs.");
    }
    if (!size.same_leading_dimension) out_->same_leading_dimension = false;
    const std::int64_t copy_ns = options_.copy ? copy(*element) : 0;
    const std::int64_t stamp = std::max(element->ready_ns, out_->last_ns) + copy_ns;
    large_ = large_ || (options_.copy && (size.bytes > kSmallBytes || size.opaque > 0));
    // A small element is returned to the feeder: see Element. All else is freed here,
    // since the feed would keep it until its slot is used again.
    if (large_) element->components.clear();
    out_->copy_ns += copy_ns;
    if (out_->elements == 0) out_->first_copy_ns = copy_ns;
    out_->opaque += size.opaque;
    tally_.count(stamp, size.bytes, size.samples);
    return absl::OkStatus();
  }

  // Nanoseconds; the time to make room for the copies is not in it.
  std::int64_t copy(const Element& element) {
    for (const Tensor& component : element.components) {
      Payload payload;
      add_payload(component, &payload);
      buffer_.reserve(static_cast<std::size_t>(payload.bytes));
    }
    const std::int64_t start_ns = now_ns();
    for (const Tensor& component : element.components) {
      copy_payload(component, &buffer_);
    }
    return now_ns() - start_ns;
  }

  void start_steady(const ElementFeed& feed, std::int64_t* deadline) {
    tally_.start_steady();
    if (options_.seconds_ns > 0) *deadline = out_->first_ns + options_.seconds_ns;
    starved_before_ns_ = feed.reader_stats().waited_ns;
    blocked_before_ns_ = feed.writer_stats().waited_ns;
    sample(feed);
  }

  void trace(std::int64_t asked_ns, std::int64_t got_ns, std::int64_t bytes) const {
    const std::int64_t end_ns = now_ns();
    record({TraceKind::kConsumer, -1, 0, asked_ns, end_ns, end_ns - got_ns,
            got_ns - asked_ns, bytes, 1},
           "");
  }

  void sample(const ElementFeed& feed) {
    // No element waits for a consumer that only counts, whatever it has left in the
    // feed during a nap.
    const std::size_t depth = options_.copy ? feed.undelivered() : 0;
    tally_.sample(static_cast<std::int64_t>(depth),
                  feed.reader_stats().waited_ns - starved_before_ns_,
                  feed.writer_stats().waited_ns - blocked_before_ns_);
  }

  void finish(const ElementFeed& feed) {
    out_->finished_ns = now_ns();
    out_->capacity = static_cast<std::int64_t>(feed.limit());
    const WaitStats reader = feed.reader_stats();
    const WaitStats writer = feed.writer_stats();
    out_->consumer_parks = static_cast<std::int64_t>(reader.parks);
    out_->feeder_parks = static_cast<std::int64_t>(writer.parks);
    out_->consumer_cpu_ns = thread_cpu_ns() - consumer_cpu_before_ns_;
    if (out_->elements == 0) return;
    tally_.finish(reader.waited_ns - starved_before_ns_,
                  writer.waited_ns - blocked_before_ns_);
  }

  const MeasurementOptions& options_;
  Measurement* const out_;
  TransferBuffer buffer_;
  Tally tally_;
  std::int64_t pass_ = 0;
  bool large_ = false;  // an element that holds memory was not small
  std::int64_t starved_before_ns_ = 0;
  std::int64_t blocked_before_ns_ = 0;
  const std::int64_t consumer_cpu_before_ns_ = thread_cpu_ns();
};

}  // namespace

absl::Status measure(OpKernelContext* ctx, tensorflow::data::DatasetBase* dataset,
                     const FeederOptions& feeder_options,
                     const MeasurementOptions& options,
                     const std::shared_ptr<MeasurementRun>& run,
                     const OnEpoch& on_epoch, Measurement* out) {
  TransferBuffer buffer;
  if (options.copy) buffer.reserve(known_bytes(*dataset));
  out->requested_ns = now_ns();
  std::shared_ptr<Feeder> feeder;
  FeederOptions counting = feeder_options;
  counting.counted = !options.copy;
  TF_RETURN_IF_ERROR(Feeder::start(ctx, dataset, counting, &feeder));
  out->created_ns = now_ns();
  absl::Status status;
  std::atomic<bool> cancelled{false};
  {
    const auto on_cancel = [feeder, &cancelled] {
      cancelled = true;
      feeder->stop();
    };
    Cancellation cancellation;
    if (!cancellation.watch(ctx->cancellation_manager(), on_cancel)) on_cancel();
    run->set_on_stop([feeder] { feeder->stop(); });
    status = Consumer(options, run.get(), on_epoch, std::move(buffer), out)
                 .consume(&feeder->feed());
    run->set_on_stop(nullptr);
  }
  if (feeder->finish(ctx, kFeederGraceNs)) out->feeder_cpu_ns = feeder->cpu_ns();
  out->stopped = run->stopped();
  if (cancelled && !out->stopped) {
    return absl::CancelledError("The measurement of the dataset was cancelled.");
  }
  return status;
}

absl::Status measure_bare(OpKernelContext* ctx, tensorflow::data::DatasetBase* dataset,
                          bool finalize, std::int64_t warm_up, std::int64_t elements,
                          Measurement* out) {
  out->requested_ns = now_ns();
  std::unique_ptr<DatasetIterator> iterator;
  TF_RETURN_IF_ERROR(DatasetIterator::create(ctx, dataset, finalize, &iterator));
  out->created_ns = now_ns();
  const auto on_cancel = [&iterator] { iterator->cancel(); };
  Cancellation cancellation;
  if (!cancellation.watch(ctx->cancellation_manager(), on_cancel)) on_cancel();
  std::vector<Tensor> components;
  for (std::int64_t i = -warm_up; i < elements && !out->ended; ++i) {
    if (i == 0) {
      out->first_ns = now_ns();
      out->cpu_ns = -clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    }
    TF_RETURN_IF_ERROR(iterator->get_next(&components, &out->ended));
    if (i >= 0 && !out->ended) ++out->elements;
  }
  out->last_ns = now_ns();
  out->cpu_ns += clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  return absl::OkStatus();
}

}  // namespace ipufeed
