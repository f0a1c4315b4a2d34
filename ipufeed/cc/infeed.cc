#include "infeed.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "program.h"
#include "stall.h"

namespace ipufeed {
namespace {

using tensorflow::Tensor;

// A feed of constant data goes round so many elements, each byte of which is this.
constexpr int kConstants = 16;
constexpr int kConstantByte = 0x02;

}  // namespace

Infeed::Infeed(std::int64_t number, std::string name, Signature signature,
               std::shared_ptr<Feeder> feeder)
    : number_(number),
      name_(std::move(name)),
      signature_(std::move(signature)),
      feeder_(std::move(feeder)) {
  if (feeder_ != nullptr) return;
  for (int i = 0; i < kConstants; ++i) {
    std::vector<Tensor>& element = constants_.emplace_back();
    for (std::size_t c = 0; c < signature_.dtypes.size(); ++c) {
      Tensor& tensor = element.emplace_back(signature_.dtypes[c], signature_.shapes[c]);
      std::memset(tensor.data(), kConstantByte, tensor.TotalBytes());
    }
  }
}

bool Infeed::orphaned() const {
  return feeder_ != nullptr && feeder_->feed().state() == FeedState::kCancelled;
}

absl::Status Infeed::take() {
  if (!taken_.exchange(true, std::memory_order_acquire)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("The infeed queue '", name_,
                   "' is in use by another program. A queue feeds one program at a "
                   "time: wait for its "
                   "end, or use another queue."));
}

void Infeed::wake() {
  if (feeder_ != nullptr) feeder_->feed().wake_reader();
}

absl::Status Infeed::dequeue(Program& program, std::vector<Tensor>* components) {
  const std::int64_t number = dequeued_.load(std::memory_order_relaxed);
  if (feeder_ == nullptr) {
    if (program.stopped())
      return stopped_while("dequeuing from infeed", name_, program);
    *components = constants_[static_cast<std::size_t>(number % kConstants)];
  } else {
    Element element;
    ElementFeed& feed = feeder_->feed();
    const auto stopped = [&program] { return program.stopped(); };
    // Also a program that never has to wait can be stopped.
    FeedOutcome outcome = stopped() ? FeedOutcome::kStopped : feed.try_pop(&element);
    StallWatch stall;
    while (outcome == FeedOutcome::kTimedOut) {
      outcome = feed.pop(&element, stall.next_report_ns(), stopped);
      if (outcome == FeedOutcome::kTimedOut) {
        stall.report(program, "infeed", name_, "empty",
                     "its dataset has delivered nothing");
      }
    }
    switch (outcome) {
      case FeedOutcome::kDone:
        break;
      case FeedOutcome::kEnded:
        return absl::OutOfRangeError(absl::StrCat(
            "Infeed dataset iterator out of range. Are you trying to dequeue more "
            "elements than are in the dataset? The infeed queue '",
            name_, "' has given all of its ", number, " elements."));
      case FeedOutcome::kFailed: {
        const absl::Status& error = feed.error();
        return absl::Status(
            error.code(),
            absl::StrCat("An infeed dataset iterator has failed: element ", number,
                         " (from 0) of infeed queue '", name_, "': ", error.message()));
      }
      case FeedOutcome::kStopped:
        return stopped_while("dequeuing from infeed", name_, program);
      case FeedOutcome::kCancelled:
      case FeedOutcome::kTimedOut:
        return absl::FailedPreconditionError(absl::StrCat(
            "The infeed queue '", name_,
            "' has been closed: the session that initialized it has gone. Run its "
            "initializer again."));
    }
    program.step_clock().take(element.ready_ns);
    *components = std::move(element.components);
    TF_RETURN_IF_ERROR(check(*components));
  }
  dequeued_.store(number + 1, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status Infeed::check(const std::vector<Tensor>& components) const {
  if (components.size() != signature_.shapes.size()) {
    return absl::InternalError(absl::StrCat(
        "The infeed queue '", name_, "' got an element of ", components.size(),
        " tensors and expects ", signature_.shapes.size(), "."));
  }
  for (std::size_t i = 0; i < components.size(); ++i) {
    if (components[i].shape() == signature_.shapes[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "Element ", dequeued_.load(std::memory_order_relaxed),
        " (from 0) of infeed queue '", name_, "' has the shape ",
        components[i].shape().DebugString(), " in component ", i, " and must have ",
        signature_.shapes[i].DebugString(), ", as the dataset's element_spec says."));
  }
  return absl::OkStatus();
}

FeedStats Infeed::stats() const {
  FeedStats stats;
  stats.elements = dequeued_.load(std::memory_order_relaxed);
  if (feeder_ == nullptr) return stats;
  const ElementFeed& feed = feeder_->feed();
  stats.capacity = static_cast<std::int64_t>(feed.capacity());
  stats.filled = static_cast<std::int64_t>(feed.undelivered());
  stats.device = feed.reader_stats();
  stats.host = feed.writer_stats();
  return stats;
}

}  // namespace ipufeed
