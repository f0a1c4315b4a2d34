#include "feeds/outfeed.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/in_use.h"
#include "base/kernels.h"
#include "core/mutex.h"
#include "core/wait.h"
#include "feeds/result_source.h"
#include "run/program.h"
#include "run/stall.h"

namespace ipufeed {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;

std::atomic<std::int64_t> limit_bytes{std::int64_t{4} << 30};

std::atomic<std::int64_t> next_signature_id{1};

// A dequeue has the dimensions of the results and of the replicas in front of it.
constexpr int kMostRank = TensorShape::MaxDimensions() - 2;

absl::Status check_rank(const std::string& name, std::size_t component, int rank) {
  if (rank <= kMostRank) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Outfeed queue '", name, "' takes tensors of at most ", kMostRank,
      " dimensions, and tensor ", component, " has ", rank, ". Reshape it first."));
}

// How many rounds a replica may be ahead of the slowest one.
constexpr std::int64_t kOpenRounds = 16;

absl::Status gave_less(const std::string& name, std::size_t left, std::int64_t given,
                       std::size_t other) {
  return absl::InternalError(absl::StrCat(
      "Replica ", left, " has ended after ", given, given == 1 ? " result" : " results",
      " for outfeed queue '", name, "', and replica ", other,
      " has another one. A result is made of a part of each replica: all must enqueue "
      "as many. What is enqueued must not be in a branch or a loop whose condition "
      "differs between replicas."));
}

// Lifts the limit of kept results for its lifetime.
class WithoutLimit {
 public:
  explicit WithoutLimit(ResultQueue<ResultElement, ResultStore>* queue)
      : queue_(queue) {
    queue_->lift_limit();
  }
  ~WithoutLimit() { queue_->restore_limit(); }
  WithoutLimit(const WithoutLimit&) = delete;
  WithoutLimit& operator=(const WithoutLimit&) = delete;

 private:
  ResultQueue<ResultElement, ResultStore>* const queue_;
};

}  // namespace

void set_outfeed_limit_bytes(std::int64_t bytes) {
  limit_bytes.store(bytes, std::memory_order_relaxed);
}

Outfeed::Outfeed(std::int64_t number, std::string name, OutfeedMode mode,
                 std::size_t capacity, int ordinal)
    : number_(number),
      name_(std::move(name)),
      mode_(mode),
      ordinal_(ordinal),
      queue_(capacity, limit_bytes.load(std::memory_order_relaxed)),
      signature_id_(next_signature_id.fetch_add(1, std::memory_order_relaxed)) {}

absl::Status Outfeed::take(std::int64_t step, int replicas) {
  if (!taken_.exchange(true, std::memory_order_acquire)) {  // [2]
    std::vector<std::int64_t> given;
    std::vector<bool> left;
    absl::Status made = guarded("the start of an outfeed's rounds", [&] {
      given.assign(static_cast<std::size_t>(replicas), 0);
      left.assign(static_cast<std::size_t>(replicas), false);
    });
    if (!made.ok()) {
      taken_.store(false, std::memory_order_release);  // [2]
      return made;
    }
    MutexLock lock(rounds_mutex_);
    given_.swap(given);
    left_.swap(left);
    taken_by_.store(step, std::memory_order_relaxed);
    replicas_.store(replicas, std::memory_order_relaxed);
    rounds_.clear();  // incomplete results of a stopped program
    first_round_ = 0;
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "The outfeed queue '", name_,
      "' is in use by another program. A queue takes the results of one program at a "
      "time: wait for its end, or use another queue."));
}

void Outfeed::give_back() {
  taken_.store(false, std::memory_order_release);  // [2]
  runs_.fetch_add(1, std::memory_order_release);   // [3]
  queue_.wake_reader();
  wake_last();  // under its lock: last() either has not checked yet or sleeps
}

void Outfeed::note_failure_elsewhere() {
  failed_elsewhere_.fetch_add(1, std::memory_order_release);  // [3]
  queue_.wake_reader();
}

void Outfeed::wake() {
  queue_.wake_writer();
  MutexLock lock(rounds_mutex_);
  round_given_.notify_all();
}

absl::Status Outfeed::enqueue_part(Program& program, int replica,
                                   const std::vector<ResultPart>& parts) {
  if (program.aborted()) return stopped_while("enqueuing to outfeed", name_, program);
  const auto own = static_cast<std::size_t>(replica);
  bool is_ahead = false;
  Round* round = nullptr;
  {
    MutexLock lock(rounds_mutex_);
    is_ahead = given_[own] - first_round_ >= kOpenRounds;
    if (wait_for_round(program, own)) {
      TF_RETURN_IF_ERROR(check_left(own));
      TF_RETURN_IF_ERROR(open_round(own, parts));
      const std::int64_t number = given_[own]++;
      // References into a deque stay valid while others are added and removed at its
      // ends.
      round = &rounds_[static_cast<std::size_t>(number - first_round_)];
    }
  }
  if (round == nullptr) return stopped_while("enqueuing to outfeed", name_, program);
  if (is_ahead) program.step_clock().held_until(now_ns());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor& tensor = round->whole.components[i];
    const std::size_t bytes =
        tensor.TotalBytes() / static_cast<std::size_t>(replicas());
    std::memcpy(static_cast<char*>(tensor.data()) + own * bytes, parts[i].data, bytes);
  }
  ResultElement whole;
  {
    MutexLock lock(rounds_mutex_);
    if (--round->missing > 0) return absl::OkStatus();
    // It is the first: each replica gives its parts in order.
    whole = std::move(round->whole);
    rounds_.pop_front();
    ++first_round_;
    round_given_.notify_all();
  }
  // No other replica is here at the same time: the next round needs this replica's
  // part, too. So the queue has one writer at a time, and they follow each other by the
  // lock.
  return enqueue(program, std::move(whole));
}

absl::Status Outfeed::leave(int replica) {
  const auto own = static_cast<std::size_t>(replica);
  MutexLock lock(rounds_mutex_);
  left_[own] = true;
  round_given_.notify_all();
  for (std::size_t r = 0; r < given_.size(); ++r) {
    if (given_[r] > given_[own]) return gave_less(name_, own, given_[own], r);
  }
  return absl::OkStatus();
}

// Whether a replica has ended whose part of this one's next round is
// missing. All replicas detect it, whichever was faster: either they have enqueued more
// when it leaves, or it has left when they enqueue more.
absl::Status Outfeed::check_left(std::size_t replica) const {
  for (std::size_t r = 0; r < given_.size(); ++r) {
    if (left_[r] && given_[r] <= given_[replica]) {
      return gave_less(name_, r, given_[r], replica);
    }
  }
  return absl::OkStatus();
}

// Waits while the replica is far ahead and no replica that it waits for
// has ended; false once the program is stopped. Program::stop has the program's lock
// when it wants this one, so that its holder asks the program for nothing but
// stopped().
bool Outfeed::wait_for_round(const Program& program, std::size_t replica) {
  StallWatch stall;
  while (given_[replica] - first_round_ >= kOpenRounds) {
    if (program.stopped()) return false;
    if (!check_left(replica).ok()) return true;
    const std::int64_t deadline_ns = stall.next_report_ns();
    if (deadline_ns == kNoDeadline) {
      round_given_.wait(rounds_mutex_);
      continue;
    }
    round_given_.wait_for_ns(rounds_mutex_, deadline_ns - now_ns());
    if (now_ns() < deadline_ns) continue;
    std::vector<std::size_t> missing;
    for (std::size_t r = 0; r < given_.size(); ++r) {
      if (given_[r] <= first_round_) missing.push_back(r);
    }
    MutexUnlock unlocked(rounds_mutex_);
    stall.report(program, "outfeed", name_, "incomplete",
                 absl::StrCat(replicas_have(missing),
                              " not enqueued a part of its first result"));
  }
  return true;
}

// The replica's round is in rounds_, with room for its parts.
absl::Status Outfeed::open_round(std::size_t replica,
                                 const std::vector<ResultPart>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    TF_RETURN_IF_ERROR(check_rank(name_, i, parts[i].shape.dims()));
  }
  const auto index = static_cast<std::size_t>(given_[replica] - first_round_);
  if (index == rounds_.size()) {
    Round round{{{}, replicas()}, replicas()};
    for (const ResultPart& part : parts) {
      TensorShape shape = part.shape;
      shape.InsertDim(0, replicas());
      TF_RETURN_IF_ERROR(allocate(part.dtype, shape, "a result of outfeed queue", name_,
                                  &round.whole.components.emplace_back()));
    }
    rounds_.push_back(std::move(round));
  }
  const std::vector<Tensor>& whole = rounds_[index].whole.components;
  bool same = whole.size() == parts.size();
  for (std::size_t i = 0; same && i < parts.size(); ++i) {
    TensorShape shape = parts[i].shape;
    shape.InsertDim(0, replicas());
    same = whole[i].dtype() == parts[i].dtype && whole[i].shape() == shape;
  }
  if (same) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("The replicas enqueue different tensors to outfeed queue '", name_,
                   "': what is enqueued must not depend on the replica."));
}

absl::Status Outfeed::enqueue(Program& program, ResultElement&& element) {
  WholeResult whole(&element);
  return enqueue_from(program, whole);
}

absl::Status Outfeed::enqueue(Program& program, const std::vector<ResultPart>& parts) {
  ResultOfParts result(&parts, &name_);
  try {
    return enqueue_from(program, result);
  } catch (const std::bad_alloc&) {
    std::string tensors;
    for (const ResultPart& part : parts) {
      absl::StrAppend(&tensors, tensors.empty() ? "" : ", ",
                      tensorflow::DataTypeString(part.dtype), " ",
                      part.shape.DebugString());
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("There is no memory for a result of outfeed queue '", name_,
                     "': ", tensors, "."));
  }
}

template <class Source>
absl::Status Outfeed::enqueue_from(Program& program, Source& source) {
  const InUse in_use(&in_use_);
  if (in_use.taken()) {
    return two_calls(absl::StrCat("outfeed queue '", name_, "'"), "enqueue");
  }
  if (program.aborted()) return stopped_while("enqueuing to outfeed", name_, program);
  TF_RETURN_IF_ERROR(check(source));
  if (mode_ == OutfeedMode::kLast) {
    ResultElement& element = source.element();
    MutexLock lock(last_mutex_);
    last_ = std::move(element);
    return absl::OkStatus();
  }
  const auto aborted = [&program] { return program.aborted(); };
  const auto stopped = [&program] { return program.stopped(); };
  StallWatch stall;
  const std::uint64_t waits = queue_.writer_stats().waits;
  for (;;) {
    switch (queue_.enqueue_from(source, stall.next_report_ns(), stopped)) {
      case FeedOutcome::kDone:
        if (queue_.writer_stats().waits != waits) {
          program.step_clock().held_until(now_ns());
        }
        return absl::OkStatus();
      case FeedOutcome::kTimedOut:
        stall.report(program, "outfeed", name_, "full", "no reader takes its results");
        continue;
      case FeedOutcome::kStopped: {
        if (aborted()) return stopped_while("enqueuing to outfeed", name_, program);
        // The end of the dataset: complete results are delivered. It does not wait for
        // room any more, since the program must end.
        const WithoutLimit without(&queue_);
        if (queue_.enqueue_from(source, kNoDeadline, aborted) == FeedOutcome::kDone) {
          return absl::OkStatus();
        }
        return stopped_while("enqueuing to outfeed", name_, program);
      }
      default:
        return absl::CancelledError(
            absl::StrCat("The outfeed queue '", name_, "' has been deleted."));
    }
  }
}

template <class Source>
absl::Status Outfeed::check(const Source& source) {
  const ResultSignature* signature = signature_.load(std::memory_order_relaxed);
  if (signature == nullptr) return sign(source);
  bool same = source.replicas() == signature->replicas &&
              source.size() == signature->shapes.size();
  // Without the dimension of the replicas, if there are several.
  const int skipped = signature->replicas > 1 ? 1 : 0;
  for (std::size_t i = 0; same && i < source.size(); ++i) {
    const TensorShape& shape = signature->shapes[i];
    same = source.dtype(i) == signature->dtypes[i] &&
           source.shape(i).dims() == shape.dims() + skipped;
    for (int d = 0; same && d < shape.dims(); ++d) {
      same = source.shape(i).dim_size(d + skipped) == shape.dim_size(d);
    }
  }
  if (same) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "Outfeed with id='", name_,
      "' already exists but with a different tensor shape or replication factor. It "
      "takes ",
      signature->describe(), ", and the program enqueues ",
      signature_of(source).describe(),
      ". Delete it first (`deleter`), or use another queue."));
}

// The first element fixes dtypes and shapes of all.
template <class Source>
absl::Status Outfeed::sign(const Source& source) {
  for (std::size_t i = 0; i < source.size(); ++i) {
    TF_RETURN_IF_ERROR(
        check_bytes(absl::StrCat("Outfeed queue '", name_, "'"), i, source.dtype(i)));
    const int in_front = source.replicas() > 1 ? 1 : 0;
    TF_RETURN_IF_ERROR(check_rank(name_, i, source.shape(i).dims() - in_front));
    if (source.shape(i).num_elements() > 0) continue;
    return absl::InvalidArgumentError(
        "Detected an input tensor to an outfeed queue with a dimension of size 0. "
        "Please remove it from the inputs.");
  }
  own_signature_ = std::make_unique<const ResultSignature>(signature_of(source));
  signature_.store(own_signature_.get(), std::memory_order_release);  // [1]
  return absl::OkStatus();
}

absl::Status Outfeed::take_all(
    const std::function<absl::Status(const ResultSignature&)>& accept,
    std::vector<Tensor>* tensors) {
  tensors->clear();
  ResultStore taken = queue_.take();
  if (taken.empty()) return absl::OkStatus();
  absl::Status status = guarded("the use of dequeued results", [&]() -> absl::Status {
    TF_RETURN_IF_ERROR(accept(taken.signature()));
    return taken.stack(name_, tensors);
  });
  if (!status.ok()) queue_.put_back(std::move(taken));
  return status;
}

bool Outfeed::wait_for_all(std::int64_t own_step, std::int64_t deadline_ns,
                           const std::atomic<bool>& stopped) {
  const WithoutLimit without(&queue_);
  return wait_until_idle(ordinal_, own_step, deadline_ns, stopped);
}

absl::Status Outfeed::last(
    std::int64_t own_step, std::int64_t deadline_ns, const std::atomic<bool>& stopped,
    const std::function<absl::Status(const ResultSignature&)>& accept,
    std::vector<Tensor>* tensors) {
  MutexLock lock(last_mutex_);
  const auto by_another = [this, own_step] {
    const std::int64_t step = taken_by_.load(std::memory_order_relaxed);
    return taken() && (step == 0 || step != own_step);
  };
  while (by_another() && !stopped.load(std::memory_order_relaxed)) {
    if (deadline_ns == kNoDeadline) {
      run_ended_.wait(last_mutex_);
      continue;
    }
    const std::int64_t left_ns = deadline_ns - now_ns();
    if (left_ns <= 0) {
      return absl::DeadlineExceededError(absl::StrCat("The program of outfeed queue '",
                                                      name_, "' has not ended yet."));
    }
    run_ended_.wait_for_ns(last_mutex_, left_ns);
  }
  if (stopped.load(std::memory_order_relaxed)) {
    return absl::CancelledError(
        absl::StrCat("Waiting for the program of outfeed queue '", name_,
                     "' to end was cancelled."));
  }
  if (last_.components.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Trying to get the last value from an outfeed queue before it was executed. "
        "Make sure the outfeed dequeue TensorFlow operation is executed after the "
        "enqueue to the outfeed has completed. The outfeed queue '",
        name_, "' has had no result since its last dequeue."));
  }
  TF_RETURN_IF_ERROR(accept(*signature()));
  *tensors = std::move(last_.components);
  last_ = {};
  return absl::OkStatus();
}

void Outfeed::wake_last() {
  MutexLock lock(last_mutex_);
  run_ended_.notify_all();
}

bool Outfeed::wait(std::int64_t deadline_ns, std::uint64_t seen_ends) {
  return queue_.wait(deadline_ns, [this, seen_ends] {
    return ends() != seen_ends || closed_.load(std::memory_order_relaxed);
  });
}

void Outfeed::wait_or_stopped(std::int64_t deadline_ns,
                              const std::function<bool()>& stopped) {
  queue_.wait(deadline_ns, [&] { return is_deleted() || stopped(); });
}

FeedOutcome Outfeed::next(ResultElement* element, std::int64_t deadline_ns,
                          std::uint64_t seen_ends) {
  return queue_.next(element, deadline_ns, [this, seen_ends] {
    return ends() != seen_ends || closed_.load(std::memory_order_relaxed);
  });
}

void Outfeed::close() {
  closed_.store(true, std::memory_order_relaxed);
  queue_.cancel();
}

FeedStats Outfeed::stats() const {
  FeedStats stats;
  stats.elements = static_cast<std::int64_t>(queue_.enqueued());
  stats.capacity = static_cast<std::int64_t>(queue_.capacity());
  stats.filled = static_cast<std::int64_t>(queue_.in_ring());
  stats.stored_bytes = queue_.stored_bytes();
  stats.device = queue_.writer_stats();
  stats.host = queue_.reader_stats();
  return stats;
}

}  // namespace ipufeed
