// The seeds of random operations, as `reset_ipu_seed` determines them.
//
//   seed of the device -> n, the run -> r, the replica -> o, the op -> c, its execution
//
// Each arrow is one step of splitmix64 over the number before xor the next one. The
// numbers are chained and not xored side by side, because with mix(n) ^ mix(r) run 1 of
// replica 2 would be run 2 of replica 1.
//
// No token orders the seed ops of a program: each op has a number of its own, counts
// its own executions, and those follow each other wherever it stands (a loop's
// iterations do). In a pipeline c is made of the number of the mini-batch, so that the
// order in which an IPU computes does not matter.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "core/mutex.h"

namespace ipufeed {

// One step of splitmix64.
constexpr std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Restarts a device's random numbers with this seed. Any thread; a running program
// keeps its seeds.
void set_device_seed(int ordinal, std::int64_t seed, bool identical_replicas);

// Gives every device a random seed again, from the system's entropy.
void forget_device_seeds();

// Each run has seed 0 and number 1 from now on (synthetic data of the category `seed`).
void set_synthetic_seed(bool synthetic);

// The seeds of one run of a program.
class RunSeeds {
 public:
  // The place at which a seed is drawn.
  struct Place {
    int replica = 0;              // among those of all processes
    std::int64_t op = 0;          // o
    std::int64_t mini_batch = 0;  // in the run; 0 outside of a pipeline
  };

  // Takes the device's seed and the run's number; the first call counts. draw() does so
  // too.
  void begin(int ordinal);

  // Any thread.
  std::uint64_t draw(int ordinal, const Place& place);

  // The same for an op with its own seed: that seed, changed for each replica but the
  // first, unless the device's seed has been reset.
  std::uint64_t draw_or_keep(int ordinal, const Place& place, std::uint64_t own);

  // The mini-batches that a replica's pipeline has completed in the run, for its next
  // execution; add_mini_batches adds them at the end of each.
  std::int64_t mini_batches(int replica, std::uint64_t pipeline);
  void add_mini_batches(int replica, std::uint64_t pipeline, std::int64_t count);

 private:
  struct Executions {
    std::int64_t mini_batch = 0;
    std::uint64_t count = 0;
  };

  void begin_locked(int ordinal) IPUFEED_REQUIRES(mutex_);
  std::uint64_t draw_locked(const Place& place) IPUFEED_REQUIRES(mutex_);
  std::uint64_t number_of(int replica) const IPUFEED_REQUIRES(mutex_);

  Mutex mutex_;
  bool begun_ IPUFEED_GUARDED_BY(mutex_) = false;
  bool is_reset_ IPUFEED_GUARDED_BY(mutex_) = false;
  bool identical_ IPUFEED_GUARDED_BY(mutex_) = false;
  std::uint64_t key_ IPUFEED_GUARDED_BY(mutex_) = 0;  // of the seed and n
  std::map<std::pair<int, std::int64_t>, Executions> executions_
      IPUFEED_GUARDED_BY(mutex_);
  std::map<std::pair<int, std::uint64_t>, std::int64_t> mini_batches_
      IPUFEED_GUARDED_BY(mutex_);
};

}  // namespace ipufeed
