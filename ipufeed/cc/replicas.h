// The copies of a program that run at once, and where they meet to exchange tensors.
//
//   replica 0 --meet()--+        all are here: each computes its share,
//   replica 1 --meet()--+------> in the order of the replicas, and all
//   replica 2 --meet()--+        leave when the last share is done
//
// A result is computed once, from replica 0 up, and copied: it has the same bits on all
// replicas and in each run. Floats of 16 bits are summed in 32.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "program.h"
#include "tensorflow/core/framework/types.pb.h"

namespace ipufeed {

// What they do with the tensors that they bring. The Python side and the compiled call
// have the same numbers: ipufeed/parallel/collectives.py.
enum class Exchange : std::int64_t {
  kReduce = 0,  // each gets the reduction of all
  kMean = 1,    // each gets the sum, divided by how many there are
  kGather = 2,  // each gets all, one behind the other
  // Replica r gets the r-th part of the reduction: one of as many equal parts as there
  // are replicas, the last of them filled up with zeros.
  kReduceScatter = 3,
  kAllToAll = 4,   // replica r gets the r-th part of each, one behind the other
  kBroadcast = 5,  // each gets what replica 0 has
};

enum class Reduction : std::int64_t { kAdd = 0, kMultiply = 1, kMin = 2, kMax = 3 };

// One tensor of one replica. Both are of the same dtype.
struct Brought {
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  std::int64_t count = 0;  // elements of the input
  const void* input = nullptr;
  std::int64_t result_count = 0;
  void* result = nullptr;
};

struct Meeting {
  Exchange exchange = Exchange::kReduce;
  Reduction reduction = Reduction::kAdd;
  // So many replicas that follow each other exchange among themselves; 0 for all.
  std::int64_t group = 0;
  std::vector<Brought> tensors;
};

class Replicas : public Wakeable {
 public:
  explicit Replicas(int count);
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  int count() const { return static_cast<int>(meetings_.size()); }

  // Where those chips of the replicas meet that are a replica's n-th: the stages of a
  // pipeline come to their exchanges independently of each other. Any thread; it lives
  // as long as this.
  Replicas& of_chip(int n);

  // The replica's thread. Waits until all replicas are here, does what they have come
  // for, and returns when all results are there. An error if they have come for
  // different things, if the numbers do not fit, or once the program is stopped.
  absl::Status meet(const Program& program, int replica, const Meeting& meeting);

  void wake() override;

 private:
  enum class Phase { kGathering, kWorking, kLeaving };

  bool wait(std::unique_lock<std::mutex>* lock, const Program& program, int replica,
            Phase phase);
  absl::Status check() const;

  // Guards all below. Program::stop has the program's lock when it wants this one, so
  // that who has this one asks the program for nothing but stopped().
  std::mutex mutex_;
  std::condition_variable changed_;
  Phase phase_ = Phase::kGathering;
  std::vector<const Meeting*> meetings_;  // by replica, of those that are here
  int here_ = 0;
  int working_ = 0;
  int leaving_ = 0;
  absl::Status outcome_;
  std::map<int, std::unique_ptr<Replicas>> of_chips_;
};

// What a meeting of one does: the same, without anybody else.
absl::Status meet_alone(const Meeting& meeting);

}  // namespace ipufeed
