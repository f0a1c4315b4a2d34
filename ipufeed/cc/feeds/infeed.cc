// Memory order. A replica that ends stores that it has left, after the rounds that it
// has had:
//   [1] leave() -> in_the_way()  a load that sees the flag also sees all its rounds.
// Then it wakes the others, which either see it or sleep and are woken: wait.h, [7]
// and [8].

#include "feeds/infeed.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/in_use.h"
#include "base/kernels.h"
#include "run/program.h"
#include "run/stall.h"

namespace ipufeed {
namespace {

using tensorflow::DataType;
using tensorflow::Tensor;

// A feed of constant data cycles through kConstants elements, each byte of which is
// kConstantByte, but for bools.
constexpr int kConstants = 16;
constexpr int kConstantByte = 0x02;

void add(const WaitStats& more, WaitStats* sum) {
  sum->waits += more.waits;
  sum->parks += more.parks;
  sum->waited_ns += more.waited_ns;
}

}  // namespace

Infeed::Infeed(std::int64_t number, std::string name, Signature signature,
               std::shared_ptr<Feeder> feeder, std::size_t rings)
    : number_(number),
      name_(std::move(name)),
      signature_(std::move(signature)),
      feeder_(std::move(feeder)),
      readers_(rings) {}

absl::Status Infeed::make_constants() {
  if (feeder_ != nullptr) return absl::OkStatus();
  for (int i = 0; i < kConstants; ++i) {
    std::vector<Tensor>& element = constants_.emplace_back();
    for (std::size_t c = 0; c < signature_.dtypes.size(); ++c) {
      Tensor& tensor = element.emplace_back();
      const DataType dtype = signature_.dtypes[c];
      TF_RETURN_IF_ERROR(allocate(dtype, signature_.shapes[c],
                                  "the constant data of infeed queue", name_, &tensor));
      // A bool is 0 or 1, and nothing else.
      const int byte = dtype == tensorflow::DT_BOOL ? 1 : kConstantByte;
      std::memset(tensor.data(), byte, tensor.TotalBytes());
    }
  }
  return absl::OkStatus();
}

std::string Signature::describe() const {
  std::string text;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", tensorflow::DataTypeString(dtypes[i]),
                    " ", shapes[i].DebugString());
  }
  return text;
}

Infeed::~Infeed() {
  if (feeder_ != nullptr) feeder_->drop();
}

bool Infeed::orphaned() const {
  return feeder_ != nullptr && feeder_->feed().state() == FeedState::kCancelled;
}

absl::Status Infeed::take(std::int64_t, int replicas) {
  if (!take_for_good()) {
    return absl::FailedPreconditionError(
        absl::StrCat("The infeed queue '", name_,
                     "' is in use by another program. A queue feeds one program at a "
                     "time: wait for its end, or use another queue."));
  }
  absl::Status fits;
  try {
    fits = fit(replicas);
  } catch (...) {
    give_back();
    throw;
  }
  if (!fits.ok()) {
    give_back();
  } else if (feeder_ != nullptr) {
    feeder_->begin();
  }
  return fits;
}

// With the queue taken.
absl::Status Infeed::fit(int replicas) {
  if (replicas_ != 0 && replicas_ != replicas) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Iterator for feed '", name_,
        "' has already been setup with a replication factor of ", replicas_,
        " when it should have ", replicas,
        ". Run the queue's `deleter` and `initializer` between programs of different "
        "replication, or use another queue."));
  }
  const std::size_t rings = readers_.size();
  if (rings % static_cast<std::size_t>(replicas) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Iterator for feed '", name_,
        "' has already been setup with a replication factor of ", rings,
        " when it should have ", replicas, ": its device had ", rings,
        " IPUs when its `initializer` ran. Configure the system before that, and give "
        "the queue the `device_ordinal` of the IPU that uses it."));
  }
  replicas_ = replicas;
  for (Reader& reader : readers_)
    reader.has_left.store(false, std::memory_order_relaxed);
  // A program that was stopped may have left them in the middle of a round.
  for (int r = 0; r < replicas; ++r) {
    first_round_ = std::max(
        first_round_,
        readers_[static_cast<std::size_t>(r)].rounds.load(std::memory_order_relaxed));
  }
  return absl::OkStatus();
}

void Infeed::wake() {
  if (feeder_ == nullptr) return;
  for (std::size_t i = 0; i < feeder_->rings(); ++i) feeder_->feed(i).wake_reader();
}

absl::Status Infeed::dequeue(Program& program, int replica,
                             std::vector<Tensor>* components) {
  Reader& reader = readers_[static_cast<std::size_t>(replica)];
  const InUse in_use(&reader.in_use);
  if (in_use.taken()) {
    return two_calls(absl::StrCat("infeed queue '", name_, "'"), "_dequeue");
  }
  auto& rounds = reader.rounds;
  std::int64_t round = rounds.load(std::memory_order_relaxed);
  if (feeder_ == nullptr) {
    if (program.stopped())
      return stopped_while("dequeuing from infeed", name_, program);
    const std::int64_t number = round * replicas_ + replica;
    *components = constants_[static_cast<std::size_t>(number % kConstants)];
    rounds.store(round + 1, std::memory_order_relaxed);
    return absl::OkStatus();
  }
  Element element;
  do {  // once, unless the others were ahead in a program that was stopped
    TF_RETURN_IF_ERROR(next(program, round * replicas_ + replica, &element));
    rounds.store(++round, std::memory_order_relaxed);
  } while (round <= first_round_);
  program.step_clock().take(element.ready_ns);
  *components = std::move(element.components);
  return check((round - 1) * replicas_ + replica, *components);
}

// The element of this number, from the replica whose it is. The rings of replica r are
// those with r as their number modulo the replicas: each ring has one reader.
absl::Status Infeed::next(const Program& program, std::int64_t number,
                          Element* element) {
  const auto rings = static_cast<std::int64_t>(readers_.size());
  const std::int64_t ring = rings == 1 ? 0 : number % rings;
  ElementFeed& feed = feeder_->feed(static_cast<std::size_t>(ring));
  int left = -1;
  const auto stopped = [this, &program, number, &left] {
    return program.stopped() || (left = in_the_way(number)) >= 0;
  };
  // A program that never waits can be stopped, too.
  FeedOutcome outcome =
      program.stopped() ? FeedOutcome::kStopped : feed.try_pop(element);
  StallWatch stall;
  while (outcome == FeedOutcome::kTimedOut) {
    outcome = feed.pop(element, stall.next_report_ns(), stopped);
    if (outcome == FeedOutcome::kTimedOut) {
      stall.report(program, "infeed", name_, "empty",
                   number > 0 ? "its dataset has delivered nothing more"
                              : "its dataset has delivered nothing");
    }
  }
  // If the end of the dataset has stopped it, in another replica, this one continues to
  // the same round: its remaining elements are in its ring. Not by the state of this
  // ring: rings end one after the other, and the other replica's may be the first.
  if (outcome == FeedOutcome::kStopped && absl::IsOutOfRange(program.stop_status()) &&
      feeder_->ended()) {
    outcome = feed.try_pop(element);
    if (outcome == FeedOutcome::kTimedOut) outcome = FeedOutcome::kStopped;
  }
  switch (outcome) {
    case FeedOutcome::kDone:
      return absl::OkStatus();
    case FeedOutcome::kEnded:
      return absl::OutOfRangeError(absl::StrCat(
          "Infeed dataset iterator out of range. Are you trying to dequeue more "
          "elements than are in the dataset? The infeed queue '",
          name_, "' has given all of its ", feeder_->total(), " elements",
          replicas_ == 1 ? "."
                         : absl::StrCat(", of which ", replicas_,
                                        " replicas take one each at a time."),
          " Repeat the dataset (`dataset.repeat()`), or let programs take less of "
          "it."));
    case FeedOutcome::kFailed: {
      const absl::Status& error = feed.error();
      return absl::Status(
          error.code(), absl::StrCat("An infeed dataset iterator has failed: element ",
                                     feeder_->total(), " (from 0) of infeed queue '",
                                     name_, "': ", error.message()));
    }
    case FeedOutcome::kStopped:
      if (left >= 0 && !program.stopped()) return never_dealt(number, left);
      return stopped_while("dequeuing from infeed", name_, program);
    case FeedOutcome::kCancelled:
    case FeedOutcome::kTimedOut:
      break;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("The infeed queue '", name_,
                   "' has been closed: the session that initialized it has gone. Run "
                   "its initializer again."));
}

absl::Status Infeed::leave(int replica) {
  readers_[static_cast<std::size_t>(replica)].has_left.store(
      true, std::memory_order_release);  // [1]
  wake();
  return absl::OkStatus();
}

// Returns a replica that has left and whose full ring blocks the distribution of the
// element of this number; -1 if there is none. Its rings never empty again,
// and the first element has set their limit.
int Infeed::in_the_way(std::int64_t number) const {
  const auto rings = static_cast<std::int64_t>(readers_.size()) / replicas_;
  for (int r = 0; r < replicas_; ++r) {
    const Reader& reader = readers_[static_cast<std::size_t>(r)];
    if (!reader.has_left.load(std::memory_order_acquire)) continue;  // [1]
    const auto room =
        static_cast<std::int64_t>(feeder_->feed(static_cast<std::size_t>(r)).limit());
    const std::int64_t full =
        reader.rounds.load(std::memory_order_relaxed) + rings * room;
    if (full * replicas_ + r < number) return r;
  }
  return -1;
}

absl::Status Infeed::never_dealt(std::int64_t number, int left) const {
  return absl::InternalError(absl::StrCat(
      "Replica ", left, " has ended after ",
      readers_[static_cast<std::size_t>(left)].rounds.load(std::memory_order_relaxed) -
          first_round_,
      " elements of infeed queue '", name_, "', and replica ", number % replicas_,
      " waits for another one after ", number / replicas_ - first_round_,
      ". Elements are distributed to the replicas in rotation, and those of a replica "
      "that takes none block the others: all must take as many. A loop must not run "
      "longer on one replica than on another."));
}

absl::Status Infeed::check(std::int64_t number,
                           const std::vector<Tensor>& components) const {
  if (components.size() != signature_.shapes.size()) {
    return absl::InternalError(absl::StrCat(
        "The infeed queue '", name_, "' got an element of ", components.size(),
        " tensors and expects ", signature_.shapes.size(), "."));
  }
  for (std::size_t i = 0; i < components.size(); ++i) {
    if (components[i].dtype() != signature_.dtypes[i]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Element ", number, " (from 0) of infeed queue '", name_, "' has the dtype ",
          tensorflow::DataTypeString(components[i].dtype()), " in component ", i,
          " and must have ", tensorflow::DataTypeString(signature_.dtypes[i]),
          ", as in the dataset's element_spec."));
    }
    if (components[i].shape() == signature_.shapes[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "Element ", number, " (from 0) of infeed queue '", name_, "' has the shape ",
        components[i].shape().DebugString(), " in component ", i, " and must have ",
        signature_.shapes[i].DebugString(), ", as in the dataset's element_spec."));
  }
  return absl::OkStatus();
}

FeedStats Infeed::stats() const {
  FeedStats stats;
  for (const Reader& reader : readers_) {
    stats.elements += reader.rounds.load(std::memory_order_relaxed);
  }
  if (feeder_ == nullptr) return stats;
  for (std::size_t i = 0; i < feeder_->rings(); ++i) {
    const ElementFeed& feed = feeder_->feed(i);
    stats.capacity += static_cast<std::int64_t>(feed.limit());
    stats.filled += static_cast<std::int64_t>(feed.undelivered());
    add(feed.reader_stats(), &stats.device);
    add(feed.writer_stats(), &stats.host);
  }
  return stats;
}

}  // namespace ipufeed
