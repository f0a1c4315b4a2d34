// The IPUs of one `/device:IPU:n`: each has its own threads, on which it computes and
// waits.
//
//   program on IPU n -> run_on_ipus() -> IPU (n, 0), (n, 1), ...: one work each
//                            |  waits for all; the first error stops the others
//
// A work that waits (for its feed, for another IPU) blocks its IPU's threads and no
// others: two IPUs never share one, and neither do two programs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "run/program.h"

namespace Eigen {
struct ThreadPoolDevice;
}

namespace ipufeed {

class Ipu {
 public:
  Ipu(int ordinal, int index, int set);
  Ipu(const Ipu&) = delete;
  Ipu& operator=(const Ipu&) = delete;

  int ordinal() const { return ordinal_; }
  int index() const { return index_; }

  // Queues work for its threads, which start with the first one. There are two: a
  // program of the IPU may wait in a call for another work of the same IPU, which is
  // how a replica runs a pipeline. Any thread.
  void run(std::function<void()> work);

  // Where XLA computes for it; the context of the thread that gives it work accompanies
  // it.
  const Eigen::ThreadPoolDevice* pool() const;

 private:
  struct Threads;

  const int ordinal_;
  const int index_;
  Threads* const threads_;  // never destroyed, as the IPU
};

// One of the sets of threads that a device's IPUs have, for programs of several IPUs
// that run at the same time: of two pipelines that share threads, each could wait for
// what the other holds. The same object each time, for the life of the process. Any
// thread.
Ipu& ipu(int ordinal, int index, int set);

// A program's set of threads, until it ends. Nests within a program.
class IpuLease {
 public:
  IpuLease() = default;
  ~IpuLease();
  IpuLease(const IpuLease&) = delete;
  IpuLease& operator=(const IpuLease&) = delete;

  static constexpr int kSets = 16;  // by device

  // Waits while other programs have all sets; an error once `program` is stopped.
  absl::Status take(Program* program);

  int set() const { return set_; }

 private:
  Program* program_ = nullptr;
  int set_ = 0;
};

// What one IPU does of a program.
struct IpuWork {
  int ipu = 0;
  Context context;
  std::function<absl::Status()> run;
};

// Runs the works at once, each on its IPU's threads of a set, and waits for all.
// on_error is called with the first error, on the thread of the work that has failed:
// to stop the others, whose errors are then dropped.
absl::Status run_on_ipus(int ordinal, int set, const std::vector<IpuWork>& works,
                         const std::function<void(const absl::Status&)>& on_error);

}  // namespace ipufeed
