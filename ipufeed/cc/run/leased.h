// A feed, as seen by the program that uses it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/wait.h"

namespace ipufeed {

// Counts and times of one feed, for statistics. Times are nanoseconds.
struct FeedStats {
  std::int64_t elements = 0;  // that crossed it
  std::int64_t capacity = 0;  // of its ring
  std::int64_t filled = 0;    // elements in the ring, now
  std::int64_t stored_bytes = 0;
  WaitStats device;  // the program's waits
  WaitStats host;    // the other side's
};

// Belongs to one program at a time: from take() to give_back().
class Leased {
 public:
  enum class Kind { kInfeed, kOutfeed };

  virtual Kind kind() const = 0;
  // Infeeds and outfeeds are numbered apart.
  virtual std::int64_t number() const = 0;
  virtual const std::string& name() const = 0;

  // An error if another program has it. step: see Program. replicas: copies of the
  // program that use it.
  virtual absl::Status take(std::int64_t step, int replicas) = 0;
  virtual void give_back() = 0;

  // Makes its waits check Program::stopped() again. Any thread; must not call the
  // program.
  virtual void wake() = 0;

  // The replica uses it no more, until the next program. A thread of the program.
  virtual absl::Status leave(int replica) = 0;

  virtual FeedStats stats() const = 0;

 protected:
  ~Leased() = default;
};

}  // namespace ipufeed
