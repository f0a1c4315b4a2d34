// An outfeed queue's native half: what a program has enqueued and nobody has taken yet.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "infeed.h"
#include "result_queue.h"
#include "result_store.h"

namespace ipufeed {

class Program;

enum class OutfeedMode { kAll, kLast };

// Sets how many bytes of results an outfeed keeps that nobody takes, before its program
// has to wait. For outfeeds that are made after the call. Any thread.
void set_outfeed_limit_bytes(std::int64_t bytes);

// One component of what a replica gives; the bytes are the caller's.
struct ResultPart {
  tensorflow::DataType dtype;
  tensorflow::TensorShape shape;
  const void* data;
};

// Made by the first enqueue, gone with the deleter.
class Outfeed {
 public:
  // capacity: elements in the ring.
  Outfeed(std::int64_t number, std::string name, OutfeedMode mode, std::size_t capacity,
          int ordinal);

  std::int64_t number() const { return number_; }
  const std::string& name() const { return name_; }
  OutfeedMode mode() const { return mode_; }
  int ordinal() const { return ordinal_; }

  // For Program: one program at a time. step: see Program. replicas: copies of it that
  // enqueue.
  absl::Status take(std::int64_t step, int replicas = 1);
  void give_back();
  bool taken() const { return taken_.load(std::memory_order_acquire); }
  void wake();

  // The program's thread. Waits while the ring is full and the store has no room, and
  // then tells the chip's clock of steps until when.
  absl::Status enqueue(Program& program, ResultElement&& element);

  // The same for one of several replicas, on its thread. Each component of a result is
  // [replicas, *shape], and there when the last of them has given its part: nobody sees
  // half a result. Waits also for replicas that are far behind.
  absl::Status enqueue_part(Program& program, int replica,
                            const std::vector<ResultPart>& parts);

  // The replica enqueues no more, until the next program; its thread. An error if
  // others have enqueued more: a result without its part is never whole. Those that do
  // so later get the error, too.
  absl::Status leave(int replica);

  // ---- Any thread ----

  // All that has not been taken yet. For kAll.
  ResultStore dequeue() { return queue_.take(); }

  // Waits until the IPU is idle, see program.h, with room for all results meanwhile.
  bool wait_for_all(std::int64_t own_step, std::int64_t deadline_ns,
                    const std::atomic<bool>& stopped);

  // The last element, once the program that makes it has ended, unless it lasts as long
  // as the step `own_step`. For kLast; fails if there was none since the last call.
  // stopped: see Feed.
  absl::Status last(std::int64_t own_step, const std::atomic<bool>& stopped,
                    ResultElement* element);

  // Waits until there is something to dequeue, a program has ended that had not when
  // ends() was `seen_ends`, or the deadline. True for one of the first two.
  bool wait(std::int64_t deadline_ns, std::uint64_t seen_ends);

  // Waits likewise, and takes the oldest result: see ResultQueue::next.
  FeedOutcome next(ResultElement* element, std::int64_t deadline_ns,
                   std::uint64_t seen_ends);

  // Copies of the program that has used it last; 1 if none has.
  int replicas() const { return replicas_.load(std::memory_order_relaxed); }

  // Programs that have used this outfeed and ended.
  std::uint64_t runs() const { return runs_.load(std::memory_order_acquire); }

  // These, and programs of its IPU that failed without having used it: one that would
  // have done so later may have somebody wait for its results.
  std::uint64_t ends() const {
    return runs() + failed_elsewhere_.load(std::memory_order_acquire);
  }
  void note_failure_elsewhere();

  // Nothing is delivered any more, and who waits returns.
  void close();

  FeedStats stats() const;

 private:
  // A result that not all replicas have given their part of.
  struct Round {
    ResultElement whole;
    int missing;
  };

  absl::Status check(const ResultElement& element);
  absl::Status check_left(std::size_t replica) const;
  bool wait_for_round(const Program& program, std::size_t replica,
                      std::unique_lock<std::mutex>* lock);
  absl::Status open_round(std::size_t replica, const std::vector<ResultPart>& parts);

  const std::int64_t number_;
  const std::string name_;
  const OutfeedMode mode_;
  const int ordinal_;
  ResultQueue<ResultElement, ResultStore> queue_;
  Signature signature_;  // of the first element; the program's thread
  bool has_signature_ = false;
  std::atomic<bool> taken_{false};
  std::atomic<std::int64_t> taken_by_{0};  // the step that take() was called with
  std::atomic<bool> closed_{false};
  std::atomic<std::uint64_t> runs_{0};
  std::atomic<std::uint64_t> failed_elsewhere_{0};
  std::atomic<int> replicas_{1};
  std::mutex rounds_mutex_;  // guards the next five
  std::condition_variable round_given_;
  std::deque<Round> rounds_;
  std::int64_t first_round_ = 0;     // number of the front of rounds_
  std::vector<std::int64_t> given_;  // rounds, by replica
  std::vector<bool> left_;           // by replica
  std::mutex last_mutex_;            // guards last_
  std::condition_variable run_ended_;
  ResultElement last_;
};

}  // namespace ipufeed
