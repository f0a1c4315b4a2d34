// Counts a consumer's elements: stamps, epochs, and the marks of its progress.
//
//   count() count() count() ...                   each element, in order
//     start_steady() after the first one
//     sample() where must_sample(), end_epoch() where epoch_is_over()
//   end_open_epoch(), finish()                    no further element
//
// Of the consumer's thread; other threads see MeasurementRun.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/clock.h"
#include "core/wait.h"  // kNoDeadline
#include "measure/measurement.h"

namespace ipufeed {

class Tally {
 public:
  // All three outlive it. out->requested_ns is where the first epoch begins.
  Tally(const MeasurementOptions& options, MeasurementRun* run, OnEpoch on_epoch,
        Measurement* out)
      : options_(options),
        run_(run),
        on_epoch_(std::move(on_epoch)),
        out_(out),
        marks_(options.mark_ns, options.most_marks) {
    epoch_.start_ns = out->requested_ns;
  }

  // An element, which was there at stamp_ns.
  void count(std::int64_t stamp_ns, std::int64_t bytes, std::int64_t samples) {
    out_->elements += 1;
    out_->bytes += bytes;
    out_->last_ns = stamp_ns;
    epoch_.elements += 1;
    epoch_.bytes += bytes;
    epoch_.samples += samples;
    if (static_cast<std::int64_t>(out_->stamps.size()) < options_.most_stamps) {
      out_->stamps.push_back(stamp_ns);
    }
    run_->elements.store(out_->elements, std::memory_order_relaxed);
    run_->bytes.store(out_->bytes, std::memory_order_relaxed);
  }

  // The first element has been counted. sample() follows.
  void start_steady() {
    out_->first_ns = out_->last_ns;
    run_->first_ns.store(out_->first_ns, std::memory_order_relaxed);
    next_epoch_ns_ = out_->first_ns + options_.epoch_ns;
    // Behind the stamp by what it took to wake up and to make room for the copies, and
    // one moment for all that is divided by the time since then.
    out_->steady_ns = now_ns();
    process_cpu_ns_ = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  }

  // Every mark_ns, whatever the marks' distance has grown to. Not for each element: the
  // writer's counter stays in the writer's cache.
  bool must_sample() const { return out_->last_ns >= next_sample_ns_; }

  // depth: elements in the feed now. starved_ns, blocked_ns: from start_steady() on.
  void sample(std::int64_t depth, std::int64_t starved_ns, std::int64_t blocked_ns) {
    next_sample_ns_ = out_->last_ns + options_.mark_ns;
    depth_sum_ += depth;
    ++samples_;
    if (marks_.due(out_->last_ns)) mark(out_->last_ns, starved_ns, blocked_ns);
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

  void end_open_epoch() {
    if (epoch_.elements > 0) end_epoch();
  }

  // Whether all requested epochs are complete.
  bool has_all_epochs() const {
    return options_.epochs > 0 && epochs_ == options_.epochs;
  }

  // After at least one element; out->finished_ns is when the consumer stopped waiting.
  // What both sides have waited, from start_steady() on.
  void finish(std::int64_t starved_ns, std::int64_t blocked_ns) {
    out_->starved_ns = starved_ns;
    out_->blocked_ns = blocked_ns;
    out_->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - process_cpu_ns_;
    out_->cpu_wall_ns = out_->finished_ns - out_->steady_ns;
    mark_end();
  }

 private:
  void mark(std::int64_t at_ns, std::int64_t starved_ns, std::int64_t blocked_ns) {
    marks_.add({at_ns, out_->elements, out_->bytes, starved_ns, blocked_ns, depth_sum_,
                samples_});
  }

  // The wait that ended without an element is counted separately.
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

  const MeasurementOptions& options_;
  MeasurementRun* const run_;
  const OnEpoch on_epoch_;
  Measurement* const out_;
  Epoch epoch_;
  std::int64_t epochs_ = 0;  // that have ended
  MarkTable marks_;
  std::int64_t next_sample_ns_ =
      kNoDeadline;  // the first one is that of the steady state
  std::int64_t depth_sum_ = 0;
  std::int64_t samples_ = 0;
  std::int64_t next_epoch_ns_ = kNoDeadline;
  std::int64_t process_cpu_ns_ = 0;
};

}  // namespace ipufeed
