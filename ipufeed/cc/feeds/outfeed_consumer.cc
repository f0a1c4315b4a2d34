#include "feeds/outfeed_consumer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/clock.h"
#include "core/wait.h"
#include "feeds/feed_table.h"
#include "feeds/infeed.h"
#include "measure/tally.h"
#include "run/program.h"

namespace ipufeed {
namespace {

// Results that come faster than this are read together: to wake the consumer costs the
// program 3 us.
constexpr std::int64_t kRestNs = 4'000'000;

// The number of attempts to stop programs until they have ended: that of the next pass
// may be about to begin.
constexpr std::int64_t kStopAgainNs = 50'000'000;

// The counters of an infeed, summed over all passes: each pass has its own infeed, with
// the same number, whose counters start at 0. A pass that ends and is deleted between
// two samples is not counted.
class InfeedWaits {
 public:
  explicit InfeedWaits(std::int64_t number) : number_(number) {}

  // What the infeed of this pass has counted. Between two passes, that of the last one.
  FeedStats sample() {
    std::shared_ptr<Infeed> infeed;
    if (find_infeed(number_, &infeed).ok() && infeed != last_) {
      if (last_ != nullptr) {
        const FeedStats all = last_->stats();
        starved_before_ns_ += all.device.waited_ns;
        blocked_before_ns_ += all.host.waited_ns;
      }
      last_ = std::move(infeed);
    }
    const FeedStats stats = last_ == nullptr ? FeedStats{} : last_->stats();
    starved_ns_ = starved_before_ns_ + stats.device.waited_ns;
    blocked_ns_ = blocked_before_ns_ + stats.host.waited_ns;
    return stats;
  }

  // At the last sample.
  std::int64_t starved_ns() const { return starved_ns_; }
  std::int64_t blocked_ns() const { return blocked_ns_; }

 private:
  const std::int64_t number_;
  std::shared_ptr<Infeed> last_;
  std::int64_t starved_ns_ = 0, blocked_ns_ = 0;
  std::int64_t starved_before_ns_ = 0, blocked_before_ns_ = 0;  // before last_
};

class OutfeedConsumer {
 public:
  OutfeedConsumer(std::int64_t infeed, Outfeed* feed, const MeasurementOptions& options,
                  const ResultsMeasured& results, MeasurementRun* run, Measurement* out,
                  ResultsFound* found)
      : feed_(feed),
        options_(options),
        results_(results),
        run_(run),
        out_(out),
        found_(found),
        infeed_(infeed),
        tally_(options, run, nullptr, out) {}

  absl::Status consume() {
    absl::Status status = read_results();
    end_programs();
    if (status.ok()) status = take(kNotAsked);
    tally_.end_open_epoch();
    finish();
    return status;
  }

 private:
  static constexpr std::int64_t kNotAsked = 0;

  absl::Status read_results() {
    for (;;) {
      // Before the results are read: after it all of them are available.
      const bool is_last = run_->source_has_ended();
      TF_RETURN_IF_ERROR(take(kNotAsked));
      if (is_last || is_done()) return absl::OkStatus();
      const std::int64_t asked_ns = now_ns();
      feed_->wait_or_stopped(deadline_ns_, [this] { return run_->waits_no_more(); });
      TF_RETURN_IF_ERROR(take(asked_ns));
      if (is_done()) return absl::OkStatus();
      const std::int64_t now = now_ns();
      if (now - asked_ns < kRestNs) pause_until(now + kRestNs);
    }
  }

  bool is_done() const {
    return is_full_ || run_->stopped() || feed_->is_deleted() ||
           now_ns() >= deadline_ns_;
  }

  void pause_until(std::int64_t until_ns) {
    run_->pause_until(std::min(until_ns, deadline_ns_), /*or_stop=*/true);
  }

  // All results that have come. asked_ns: when the consumer went to sleep for them.
  absl::Status take(std::int64_t asked_ns) {
    found_->stored_bytes = std::max(found_->stored_bytes, feed_->stats().stored_bytes);
    std::vector<tensorflow::Tensor> results;
    TF_RETURN_IF_ERROR(feed_->take_all(
        [this](const ResultSignature& signature) { return check(signature); },
        &results));
    if (results.empty()) return absl::OkStatus();
    asked_ns_ = asked_ns;
    visible_ns_ = now_ns();
    const tensorflow::Tensor& rows =
        results[static_cast<std::size_t>(results_.component)];
    add(static_cast<const char*>(rows.data()),
        static_cast<std::int64_t>(rows.TotalBytes()));
    const std::int64_t count = rows.dim_size(0);
    if (tally_.must_sample()) sample();
    if (run_->is_over()) return absl::OkStatus();
    run_->begin_reading(count, results_.read_ns);
    if (results_.read_ns > 0) {
      const std::int64_t most = (kNoDeadline - visible_ns_) / results_.read_ns;
      pause_until(visible_ns_ + std::min(count, most) * results_.read_ns);
    }
    return absl::OkStatus();
  }

  absl::Status check(const ResultSignature& results) const {
    const auto at = static_cast<std::size_t>(results_.component);
    const bool fits = results.replicas == 1 && at < results.dtypes.size() &&
                      results.dtypes[at] == tensorflow::DT_INT32 &&
                      results.shapes[at].dims() == 1 &&
                      results.shapes[at].dim_size(0) == 2 * results_.words;
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "The results of outfeed queue '", feed_->name(), "' are ", results.describe(),
        ", and component ", results_.component, " must be int32 [", 2 * results_.words,
        "] of one replica: stamps, as a clock or a step gives them."));
  }

  void add(const char* data, std::int64_t bytes) {
    const std::int64_t row_bytes = results_.words * std::int64_t{sizeof(std::int64_t)};
    for (const char* const end = data + bytes; data < end && !is_full_;
         data += row_bytes) {
      count(data);
    }
  }

  // An element, by its row.
  void count(const char* row) {
    std::int64_t stamp_ns = 0;
    std::memcpy(&stamp_ns, row + (results_.words - 1) * std::int64_t{sizeof(stamp_ns)},
                sizeof(stamp_ns));
    if (stamp_ns > deadline_ns_) {
      is_full_ = true;
      return;
    }
    if (asked_ns_ != kNotAsked) {
      if (out_->elements > 0 && stamp_ns >= asked_ns_) {
        found_->latencies_ns.push_back(visible_ns_ - stamp_ns);
      }
      asked_ns_ = kNotAsked;  // the first one is what it slept for
    }
    if (options_.epoch_per_pass && run_->take_end_of_pass(out_->elements)) {
      tally_.end_open_epoch();
    }
    tally_.count(stamp_ns, results_.element_bytes, results_.element_samples);
    if (results_.words > 1 &&
        out_->elements == static_cast<std::int64_t>(out_->stamps.size())) {
      const std::size_t used = found_->rows.size();
      const auto words = static_cast<std::size_t>(results_.words);
      found_->rows.resize(used + words);
      std::memcpy(&found_->rows[used], row, words * sizeof(std::int64_t));
    }
    if (out_->elements == 1) start_steady();
    if (tally_.epoch_is_over()) tally_.end_epoch();
    is_full_ = tally_.has_all_epochs();
  }

  void start_steady() {
    tally_.start_steady();
    if (options_.seconds_ns > 0) deadline_ns_ = out_->first_ns + options_.seconds_ns;
    found_->infeed = infeed_.sample();
    found_->outfeed = feed_->stats();
    starved_before_ns_ = infeed_.starved_ns();
    blocked_before_ns_ = infeed_.blocked_ns();
    sample();
  }

  void sample() {
    const std::int64_t depth = infeed_.sample().filled;
    tally_.sample(depth, infeed_.starved_ns() - starved_before_ns_,
                  infeed_.blocked_ns() - blocked_before_ns_);
  }

  // Waits until none runs any more, for a limited time.
  void end_programs() {
    run_->set_full();
    const std::int64_t give_up_ns = now_ns() + results_.stop_grace_ns;
    while (!run_->source_has_ended() && now_ns() < give_up_ns) {
      stop_all_programs(absl::CancelledError("the measurement is over"));
      run_->pause_until(now_ns() + kStopAgainNs, /*or_stop=*/false);
    }
  }

  void finish() {
    out_->finished_ns = now_ns();
    out_->stopped = run_->stopped();
    if (out_->elements == 0) return;
    out_->capacity = std::max(found_->infeed.capacity, infeed_.sample().capacity);
    tally_.finish(infeed_.starved_ns() - starved_before_ns_,
                  infeed_.blocked_ns() - blocked_before_ns_);
  }

  Outfeed* const feed_;
  const MeasurementOptions& options_;
  const ResultsMeasured& results_;
  MeasurementRun* const run_;
  Measurement* const out_;
  ResultsFound* const found_;
  InfeedWaits infeed_;
  Tally tally_;
  bool is_full_ = false;  // all requested elements were counted
  std::int64_t deadline_ns_ = kNoDeadline;
  // Of the results that are being counted.
  std::int64_t asked_ns_ = kNotAsked;
  std::int64_t visible_ns_ = 0;
  std::int64_t starved_before_ns_ = 0;
  std::int64_t blocked_before_ns_ = 0;
};

}  // namespace

absl::Status measure_outfeed(std::int64_t infeed, const std::shared_ptr<Outfeed>& feed,
                             const MeasurementOptions& options,
                             const ResultsMeasured& results,
                             const std::shared_ptr<MeasurementRun>& run,
                             Measurement* out, ResultsFound* found) {
  run->set_on_stop([feed] { feed->wake_reader(); });
  absl::Status status =
      OutfeedConsumer(infeed, feed.get(), options, results, run.get(), out, found)
          .consume();
  run->set_on_stop(nullptr);
  return status;
}

}  // namespace ipufeed
