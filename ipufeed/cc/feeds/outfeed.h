// An outfeed queue's native half: enqueued results that no reader has taken yet. With a
// slow reader the ring fills, its results are moved to the store (result_queue.h), and
// enqueue() waits once the store has reached set_outfeed_limit_bytes().
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/mutex.h"
#include "core/result_queue.h"
#include "data/feeder.h"
#include "feeds/result_store.h"
#include "run/leased.h"

namespace ipufeed {

class Program;

enum class OutfeedMode { kAll, kLast };

// Sets how many bytes of untaken results an outfeed keeps before its program has to
// wait. For outfeeds that are made after the call. Any thread.
void set_outfeed_limit_bytes(std::int64_t bytes);

// The most elements of a ring: 2 MiB of slots. Further elements go into the store.
inline constexpr std::int64_t kMostCapacity = 1 << 16;

// Made by the first enqueue, destroyed by the deleter.
class Outfeed final : public Leased {
 public:
  // capacity: elements in the ring.
  Outfeed(std::int64_t number, std::string name, OutfeedMode mode, std::size_t capacity,
          int ordinal);

  Kind kind() const override { return Kind::kOutfeed; }
  std::int64_t number() const override { return number_; }
  const std::string& name() const override { return name_; }
  OutfeedMode mode() const { return mode_; }
  int ordinal() const { return ordinal_; }

  // For Program.
  absl::Status take(std::int64_t step, int replicas = 1) override;
  void give_back() override;
  bool taken() const { return taken_.load(std::memory_order_acquire); }  // [2]
  void wake() override;

  // The program's thread. Waits while the ring is full and the store has no room, and
  // then gives the IPU's clock of steps its end. A concurrent second call is an error.
  absl::Status enqueue(Program& program, ResultElement&& element);

  // The same, of a program of one replica; the tensors are the queue's to make. A small
  // one is copied once, to where a dequeue hands it out.
  absl::Status enqueue(Program& program, const std::vector<ResultPart>& parts);

  // The same for one of several replicas, on its thread. Each component of a result is
  // [replicas, *shape], and available when the last of them has enqueued its part: no
  // reader sees an incomplete result. Waits also for replicas that are far behind.
  absl::Status enqueue_part(Program& program, int replica,
                            const std::vector<ResultPart>& parts);

  // The replica enqueues no more, until the next program; its thread. An error if
  // others have enqueued more: a result without its part is never complete. Replicas
  // that enqueue more later get the error, too.
  absl::Status leave(int replica) override;

  // ---- Any thread ----

  // Takes all that has not been taken yet as tensors, [n, *shape] each; none if nothing
  // is there. For kAll. If `accept` refuses its signature, or memory is lacking,
  // results are not taken.
  absl::Status take_all(
      const std::function<absl::Status(const ResultSignature&)>& accept,
      std::vector<tensorflow::Tensor>* tensors);

  // The signature of its results; null before the first, constant from then on.
  const ResultSignature* signature() const {
    return signature_.load(std::memory_order_acquire);  // [1]
  }

  // A number that this outfeed's signature has and no other's, from 1.
  std::int64_t signature_id() const { return signature_id_; }

  // Waits until the IPU is idle, see program.h; during the wait results have no limit.
  bool wait_for_all(std::int64_t own_step, std::int64_t deadline_ns,
                    const std::atomic<bool>& stopped);

  // The last element, once the program that makes it has ended, unless it lasts as long
  // as the step `own_step`. For kLast; fails if there was none since the last call, or
  // the program has not ended until the deadline (DeadlineExceeded), and does not take
  // it if `accept` refuses its signature. stopped: see Feed; wake_last() makes the
  // waiter check it.
  absl::Status last(std::int64_t own_step, std::int64_t deadline_ns,
                    const std::atomic<bool>& stopped,
                    const std::function<absl::Status(const ResultSignature&)>& accept,
                    std::vector<tensorflow::Tensor>* tensors);
  void wake_last();

  // Waits until there is something to dequeue, a program has ended that had not when
  // ends() was `seen_ends`, or the deadline. True for one of the first two.
  bool wait(std::int64_t deadline_ns, std::uint64_t seen_ends);

  // Waits likewise, and takes the oldest result: see ResultQueue::next. With a deadline
  // in the past it only checks for one.
  FeedOutcome next(ResultElement* element, std::int64_t deadline_ns,
                   std::uint64_t seen_ends);

  // Copies of the program that has used it last; 1 if none has.
  int replicas() const { return replicas_.load(std::memory_order_relaxed); }

  // Of how many replicas' parts its results are made, or would be, if none has come.
  int replicas_of_results() const {
    const ResultSignature* known = signature();
    return known == nullptr ? replicas() : known->replicas;
  }

  // Programs that have used this outfeed and ended.
  std::uint64_t runs() const { return runs_.load(std::memory_order_acquire); }  // [3]

  // These, and programs of its IPU that failed without having used it: one that would
  // have done so later may have a reader waiting for its results.
  std::uint64_t ends() const {
    return runs() + failed_elsewhere_.load(std::memory_order_acquire);  // [3]
  }
  void note_failure_elsewhere();

  // Stops deliveries; waiters return.
  void close();

  // Waits until there is something to dequeue, stopped() holds, the queue is deleted,
  // or the deadline. Once stopped() holds: wake_reader().
  void wait_or_stopped(std::int64_t deadline_ns, const std::function<bool()>& stopped);
  void wake_reader() { queue_.wake_reader(); }
  bool is_deleted() const { return closed_.load(std::memory_order_relaxed); }

  FeedStats stats() const override;

 private:
  // A result that lacks the parts of some replicas.
  struct Round {
    ResultElement whole;
    int missing = 0;
  };

  template <class Source>
  absl::Status enqueue_from(Program& program, Source& source);
  template <class Source>
  absl::Status check(const Source& source);
  template <class Source>
  absl::Status sign(const Source& source);
  absl::Status check_left(std::size_t replica) const IPUFEED_REQUIRES(rounds_mutex_);
  bool wait_for_round(const Program& program, std::size_t replica)
      IPUFEED_REQUIRES(rounds_mutex_);
  absl::Status open_round(std::size_t replica, const std::vector<ResultPart>& parts)
      IPUFEED_REQUIRES(rounds_mutex_);

  const std::int64_t number_;
  const std::string name_;
  const OutfeedMode mode_;
  const int ordinal_;
  ResultQueue<ResultElement, ResultStore> queue_;
  // Of the first element. Stored by the program's thread, before the first result can
  // be seen: [1] sign() -> signature(), so that a reader of the pointer sees the whole.
  std::atomic<const ResultSignature*> signature_{nullptr};
  std::unique_ptr<const ResultSignature> own_signature_;
  const std::int64_t signature_id_;
  // [2] give_back() -> take(), taken(): the next program sees the rounds and the ring
  // as the last one has left them.
  std::atomic<bool> taken_{false};
  std::atomic<std::int64_t> taken_by_{0};  // the step that take() was called with
  std::atomic<bool> in_use_{false};        // a call is in enqueue()
  std::atomic<bool> closed_{false};
  // [3] give_back(), note_failure_elsewhere() -> runs(), ends(): a reader that sees the
  // end also sees all results of the program.
  std::atomic<std::uint64_t> runs_{0};
  std::atomic<std::uint64_t> failed_elsewhere_{0};
  std::atomic<int> replicas_{1};
  Mutex rounds_mutex_;
  CondVar round_given_;
  std::deque<Round> rounds_ IPUFEED_GUARDED_BY(rounds_mutex_);
  // Number of the front of rounds_.
  std::int64_t first_round_ IPUFEED_GUARDED_BY(rounds_mutex_) = 0;
  // Rounds, by replica.
  std::vector<std::int64_t> given_ IPUFEED_GUARDED_BY(rounds_mutex_);
  std::vector<bool> left_ IPUFEED_GUARDED_BY(rounds_mutex_);  // by replica
  Mutex last_mutex_;
  CondVar run_ended_;
  ResultElement last_ IPUFEED_GUARDED_BY(last_mutex_);
};

}  // namespace ipufeed
