#include "measure/consumer.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/cancellation.h"
#include "base/trace.h"
#include "data/payload.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// How late the consumer may be for an element while they come fast: see wait.h. Its
// stamps do not depend on it. Only for elements that are small: what piles up during a
// nap is memory that the dataset would otherwise have had back while it was still in a
// cache.
constexpr std::int64_t kConsumerNapNs = 200'000;

// How long the op waits for its feeder before it leaves it to the device's keeper.
// Enough for a dataset to come down; too short to notice after Ctrl-C.
constexpr std::int64_t kFeederGraceNs = 100'000'000;

// Bytes of the largest component whose size is in the dataset's element_spec, or 0.
// Room for it can be made before the dataset is asked for anything.
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

// The consuming half: counts, copies and stamps what comes out of the feed.
//
// The stamp of an element is when a consumer that does nothing but copy would have it:
//   stamp(n) = max(ready(n), stamp(n - 1)) + time of its copy
// (Lindley's recursion for a queue with one server). ready(n) is taken by the feeder as
// the dataset delivers. How late our own threads wake up, and what the counting takes,
// is therefore in no stamp as long as the feed is not full; a full feed holds the
// feeder back, and with it ready(n): blocked_ns is for how long.
class Consumer {
 public:
  Consumer(const MeasurementOptions& options, MeasurementRun* run,
           const OnEpoch& on_epoch, TransferBuffer buffer, Measurement* out)
      : options_(options),
        run_(run),
        on_epoch_(on_epoch),
        out_(out),
        buffer_(std::move(buffer)),
        marks_(options.mark_ns, options.most_marks) {
    out_->stamps.reserve(static_cast<std::size_t>(expected_stamps(options)));
    epoch_.start_ns = out->requested_ns;
  }

  absl::Status consume(ElementFeed* feed) {
    Element element;
    std::int64_t deadline = kNoDeadline;
    feed->set_reader_nap(kConsumerNapNs);
    for (;;) {
      const bool traced = options_.traced && traces();
      const std::int64_t asked_ns = traced ? now_ns() : 0;
      const FeedOutcome outcome = feed->pop(&element, deadline);
      const std::int64_t got_ns = traced ? now_ns() : 0;
      const std::int64_t bytes_before = out_->bytes;
      if (outcome == FeedOutcome::kDone) {
        if (options_.epoch_per_pass && element.pass != pass_) end_epoch();
        pass_ = element.pass;
        TF_RETURN_IF_ERROR(take(&element));
        if (out_->elements == 1) start_steady(*feed, &deadline);
        if (traced) trace(asked_ns, got_ns, out_->bytes - bytes_before);
        if (out_->last_ns >= next_look_ns_) look(*feed);
        if (large_) feed->set_reader_nap(0);
        if (epoch_is_over()) end_epoch();
        if (options_.epochs > 0 && epochs_ == options_.epochs) break;
        if (out_->last_ns >= deadline) break;
      } else if (outcome == FeedOutcome::kFailed) {
        out_->failure = feed->error();
        break;
      } else {
        out_->ended = outcome == FeedOutcome::kEnded;
        break;  // or cancelled, or the time is over
      }
    }
    if (epoch_.elements > 0) end_epoch();
    finish(*feed);
    return absl::OkStatus();
  }

 private:
  // Address space for all stamps that may come; pages as they are written. A vector
  // that grows would copy them meanwhile, and fill the feed.
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
    Payload payload;
    for (const Tensor& component : element->components) {
      if (options_.refuse_empty && component.NumElements() == 0) {
        return absl::InvalidArgumentError(
            "Detected a tensor in the dataset with a dimension of size 0. Please "
            "remove it from the inputs.");
      }
      const std::int64_t before = payload.bytes;
      add_payload(component, &payload);
      if (options_.copy) {
        buffer_.reserve(static_cast<std::size_t>(payload.bytes - before));
      }
    }
    const std::int64_t samples = leading_dimension(*element);
    const std::int64_t copy_ns = options_.copy ? copy(*element) : 0;
    const std::int64_t stamp = std::max(element->ready_ns, out_->last_ns) + copy_ns;
    large_ = large_ || payload.bytes > kSmallBytes || payload.opaque > 0;
    // What is small goes back to the feeder: see Element. All else is freed here, since
    // the feed would keep it until its slot is used again.
    if (large_) element->components.clear();
    out_->copy_ns += copy_ns;
    out_->elements += 1;
    if (out_->elements == 1) out_->first_copy_ns = copy_ns;
    out_->bytes += payload.bytes;
    out_->opaque += payload.opaque;
    out_->last_ns = stamp;
    epoch_.elements += 1;
    epoch_.bytes += payload.bytes;
    epoch_.samples += samples;
    if (static_cast<std::int64_t>(out_->stamps.size()) < options_.most_stamps) {
      out_->stamps.push_back(stamp);
    }
    run_->elements.store(out_->elements, std::memory_order_relaxed);
    run_->bytes.store(out_->bytes, std::memory_order_relaxed);
    return absl::OkStatus();
  }

  // Nanoseconds.
  std::int64_t copy(const Element& element) {
    const std::int64_t start_ns = now_ns();
    for (const Tensor& component : element.components) {
      copy_payload(component, &buffer_);
    }
    return now_ns() - start_ns;
  }

  // 0 where the components do not agree on one; out_ has that, too.
  std::int64_t leading_dimension(const Element& element) {
    std::int64_t dimension = -1;
    for (const Tensor& component : element.components) {
      const bool scalar = component.dims() == 0;
      if (scalar || (dimension >= 0 && component.dim_size(0) != dimension)) {
        out_->same_leading_dimension = false;
        return 0;
      }
      dimension = component.dim_size(0);
    }
    return dimension < 0 ? 0 : dimension;
  }

  void start_steady(const ElementFeed& feed, std::int64_t* deadline) {
    out_->first_ns = out_->last_ns;
    run_->first_ns.store(out_->first_ns, std::memory_order_relaxed);
    if (options_.seconds_ns > 0) *deadline = out_->first_ns + options_.seconds_ns;
    next_epoch_ns_ = out_->first_ns + options_.epoch_ns;
    // Behind the stamp by what it took to wake up and to make room for the copies, and
    // one moment for all that is divided by the time since then.
    out_->steady_ns = now_ns();
    process_cpu_ns_ = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    starved_before_ns_ = feed.reader_stats().waited_ns;
    blocked_before_ns_ = feed.writer_stats().waited_ns;
    look(feed);
  }

  void trace(std::int64_t asked_ns, std::int64_t got_ns, std::int64_t bytes) const {
    const std::int64_t end_ns = now_ns();
    record({TraceKind::kConsumer, -1, 0, asked_ns, end_ns, end_ns - got_ns,
            got_ns - asked_ns, bytes, 1},
           "");
  }

  // Every mark_ns, whatever the marks' distance has grown to. Not for each element: the
  // writer's counter lies in the writer's cache.
  void look(const ElementFeed& feed) {
    next_look_ns_ = out_->last_ns + options_.mark_ns;
    depth_sum_ += static_cast<std::int64_t>(feed.undelivered());
    ++looks_;
    if (!marks_.due(out_->last_ns)) return;
    mark(out_->last_ns, feed.reader_stats().waited_ns - starved_before_ns_,
         feed.writer_stats().waited_ns - blocked_before_ns_);
  }

  void mark(std::int64_t at_ns, std::int64_t starved_ns, std::int64_t blocked_ns) {
    marks_.add({at_ns, out_->elements, out_->bytes, starved_ns, blocked_ns, depth_sum_,
                looks_});
  }

  // The wait for an element that did not come any more is a time of its own.
  void mark_end() {
    const std::int64_t silence_ns =
        std::max<std::int64_t>(0, out_->finished_ns - out_->last_ns);
    const std::int64_t since_mark_ns =
        out_->starved_ns - marks_.marks().back().starved_ns;
    const std::int64_t vain_ns = std::min(silence_ns, since_mark_ns);
    mark(out_->last_ns, out_->starved_ns - vain_ns, out_->blocked_ns);
    if (silence_ns > 0) mark(out_->finished_ns, out_->starved_ns, out_->blocked_ns);
    out_->marks = marks_.marks();
  }

  bool epoch_is_over() const {
    if (options_.elements_per_epoch > 0) {
      return epoch_.elements == options_.elements_per_epoch;
    }
    return !options_.epoch_per_pass && out_->last_ns >= next_epoch_ns_;
  }

  void end_epoch() {
    epoch_.end_ns = out_->last_ns;
    add_to_entries();
    ++epochs_;
    run_->epochs.store(epochs_, std::memory_order_relaxed);
    if (on_epoch_) on_epoch_(epochs_ - 1, epoch_);
    epoch_ = Epoch{};
    epoch_.start_ns = out_->last_ns;  // epochs are contiguous
    // The grid of epochs starts at the first element. A slow element may span several.
    while (next_epoch_ns_ <= out_->last_ns) next_epoch_ns_ += options_.epoch_ns;
  }

  void add_to_entries() {
    auto& entries = out_->epochs;
    if (epochs_ % out_->epochs_per_entry != 0) {
      merge(epoch_, &entries.back());
      return;
    }
    if (static_cast<std::int64_t>(entries.size()) == options_.most_entries) {
      for (std::size_t i = 0; 2 * i < entries.size(); ++i) {
        Epoch entry = entries[2 * i];
        merge(entries[2 * i + 1], &entry);
        entries[i] = entry;
      }
      entries.resize(entries.size() / 2);
      out_->epochs_per_entry *= 2;
    }
    entries.push_back(epoch_);
  }

  static void merge(const Epoch& next, Epoch* entry) {
    entry->elements += next.elements;
    entry->bytes += next.bytes;
    entry->samples += next.samples;
    entry->end_ns = next.end_ns;
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
    out_->starved_ns = reader.waited_ns - starved_before_ns_;
    out_->blocked_ns = writer.waited_ns - blocked_before_ns_;
    out_->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - process_cpu_ns_;
    out_->cpu_wall_ns = out_->finished_ns - out_->steady_ns;
    mark_end();
  }

  const MeasurementOptions& options_;
  MeasurementRun* const run_;
  const OnEpoch& on_epoch_;
  Measurement* const out_;
  TransferBuffer buffer_;
  Epoch epoch_;
  std::int64_t epochs_ = 0;  // that have ended
  std::int64_t pass_ = 0;
  bool large_ = false;  // an element was not small
  MarkTable marks_;
  std::int64_t next_look_ns_ =
      kNoDeadline;  // the first one is that of the steady state
  std::int64_t depth_sum_ = 0;
  std::int64_t looks_ = 0;
  std::int64_t next_epoch_ns_ = kNoDeadline;
  std::int64_t process_cpu_ns_ = 0;
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
  TF_RETURN_IF_ERROR(Feeder::start(ctx, dataset, feeder_options, &feeder));
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
