// A thread that calls Python for a collective between processes, and the memory of the
// call. Both are kept: the next collective uses them.
//
//   take() --> reserve() --> start() --> wait() --> status(), data() --> give_back()
//
// A call that waits for a process cannot be interrupted. A program that is stopped
// gives its thread back at once; the thread is idle when the call has returned, and
// another collective gets another one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/growing_block.h"
#include "core/mutex.h"
#include "run/program.h"

namespace ipufeed {

// The call of Python. Reduces the `count` elements of `data` with those of the other
// processes, which call with the same; after them there is room for kTags more.
// reduced: receives the address of the result, which is valid until the next call for
// the stream. checks: instead checks that the processes for which such a call waits are
// alive, and in the same program. stream: the number of a stream; collectives of one
// stream follow each other, those of two streams may not; the same in all processes.
// wanted: becomes 0 when no caller waits for the result any more. run:
// Program::collective_run(). number, what: of CollectiveWait. The code is absl's; of an
// error the message is written.
using OnCollective = int (*)(std::int64_t stream, int checks, std::int64_t reduction,
                             int mean, int dtype, void* data, const void** reduced,
                             std::int64_t count, const int* wanted, std::int64_t run,
                             std::int64_t number, const char* what, char* message,
                             std::int64_t message_size);
constexpr std::int64_t kTags = 2;

struct CollectiveCall {
  OnCollective function = nullptr;
  std::int64_t stream = 0;
  bool checks = false;
  std::int64_t reduction = 0;
  bool mean = false;
  int dtype = 0;
  std::int64_t count = 0;
  std::int64_t run = 0;
  std::int64_t number = 0;
  std::string what;
};

// All functions but wake() are called by the thread that has taken it.
class CollectiveThread final : public Wakeable {
 public:
  CollectiveThread(const CollectiveThread&) = delete;
  CollectiveThread& operator=(const CollectiveThread&) = delete;

  // An idle one, or a new one; null if the system has no more threads.
  static CollectiveThread* take();
  // After this the thread that had taken it uses it no more. Any call is then unwanted.
  void give_back();

  // Memory for the next call; null if there is none.
  std::byte* reserve(std::size_t bytes);
  // listener: woken when the call has returned, or null.
  void start(CollectiveCall call, Wakeable* listener);

  // Waits until the call has returned, the program was stopped, wake() was called, or
  // until the time `until_ns`. Returns whether the call has returned.
  bool wait(const Program& program, std::int64_t until_ns);
  bool has_returned();
  // What the call has returned, and the result of one that has succeeded.
  absl::Status status();
  const std::byte* reduced() const { return static_cast<const std::byte*>(reduced_); }

  void wake() override;

 private:
  CollectiveThread() = default;
  // Not destroyed: its thread runs until the process ends.
  ~CollectiveThread() = default;

  void run();
  absl::Status answer();

  GrowingBlock data_;
  CollectiveCall call_;            // written before a call starts, and read by the call
  const void* reduced_ = nullptr;  // written by the call, and read when it has returned
  std::atomic<int> wanted_{0};
  static_assert(sizeof(std::atomic<int>) == sizeof(int));

  Mutex mutex_;
  CondVar changed_;
  enum class State { kIdle, kCalled, kReturned };
  State state_ IPUFEED_GUARDED_BY(mutex_) = State::kIdle;
  bool given_back_ IPUFEED_GUARDED_BY(mutex_) = false;
  bool woken_ IPUFEED_GUARDED_BY(mutex_) = false;
  Wakeable* listener_ IPUFEED_GUARDED_BY(mutex_) = nullptr;
  absl::Status status_ IPUFEED_GUARDED_BY(mutex_);
};

}  // namespace ipufeed
