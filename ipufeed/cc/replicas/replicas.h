// The copies of a program that run at once, and their collectives.
//
//   replica 0 --run_collective()--+        all are here: each computes its part,
//   replica 1 --run_collective()--+------> in the order of the replicas, and all
//   replica 2 --run_collective()--+        leave when the last part is done
//
// A result is computed once, from replica 0 up, and copied: it has the same bits on all
// replicas and in each run. Floats of 16 bits are summed in 32.
//
// A replica that waits for one whose program has ended gets an error: see
// replica_barrier.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/mutex.h"
#include "core/replica_barrier.h"
#include "run/program.h"
#include "tensorflow/core/framework/types.pb.h"

namespace ipufeed {

// The kinds of collectives. The Python side and the compiled call
// have the same numbers: ipufeed/parallel/collectives/ops.py.
enum class Collective : std::int64_t {
  kReduce = 0,  // each gets the reduction of all
  kMean = 1,    // each gets the sum, divided by how many there are
  kGather = 2,  // each gets all, one after the other
  // Replica r gets the r-th part of the reduction: one of as many equal parts as there
  // are replicas, the last of them filled up with zeros.
  kReduceScatter = 3,
  kAllToAll = 4,   // replica r gets the r-th part of each, one after another
  kBroadcast = 5,  // each gets what replica 0 has
};

enum class Reduction : std::int64_t { kAdd = 0, kMultiply = 1, kMin = 2, kMax = 3 };

// InvalidArgument for a number that is none of these.
absl::Status check_collective(std::int64_t collective, std::int64_t reduction);

// One tensor of one replica. Both are of the same dtype.
struct Brought {
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  std::int64_t count = 0;  // elements of the input
  const void* input = nullptr;
  std::int64_t result_count = 0;
  void* result = nullptr;
};

struct CollectiveRequest {
  Collective collective = Collective::kReduce;
  Reduction reduction = Reduction::kAdd;
  // This many replicas that follow each other take part; 0 for all.
  std::int64_t group = 0;
  std::vector<Brought> tensors;
};

class Replicas final : public Wakeable {
 public:
  // is_stage: their collectives are in a stage of a pipeline, which runs once in each
  // of its executions.
  explicit Replicas(int count, bool is_stage = false);
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  int count() const { return static_cast<int>(requests_.size()); }

  // The collectives of those IPUs of the replicas that run the same part of the same
  // pipeline: the stages run theirs independently of each other. ipu: of the
  // replica's. part: the key of its program. Any thread; valid as long as this.
  Replicas& of_ipu(int ipu, std::uint64_t part);

  // The replica's thread. Waits until all replicas have arrived, executes the
  // collective, and returns when all results are available. An error if they request
  // different collectives, if the numbers do not fit, once the program is stopped, or
  // if a replica has ended and will not arrive. arrived_ns: when all were here.
  absl::Status run_collective(const Program& program, int replica,
                              const CollectiveRequest& request,
                              std::int64_t* arrived_ns);

  // The replica has done its part of a pipeline, once; or its program has ended.
  void leave(int replica);
  void leave_for_good(int replica);

  void wake() override;

 private:
  absl::Status check() const;
  absl::Status ended(const ReplicaBarrier::Attendance& attendance,
                     const CollectiveRequest& request) const;

  const bool is_stage_;
  ReplicaBarrier barrier_;
  // By replica, of those that are here. A replica writes its own before it arrives, and
  // others read it until it leaves: the barrier orders them, and so it does the outcome
  // and the time, which the member that begins writes: the next collective begins when
  // all have read them and arrived again.
  std::vector<const CollectiveRequest*> requests_;
  absl::Status outcome_;
  std::int64_t arrived_ns_ = 0;
  Mutex mutex_;
  std::vector<bool> gone_ IPUFEED_GUARDED_BY(mutex_);  // for good, by replica
  std::map<std::pair<int, std::uint64_t>, std::unique_ptr<Replicas>> of_ipus_
      IPUFEED_GUARDED_BY(mutex_);
};

// The collective's description, by its public name.
const char* name_of(const CollectiveRequest& request);

// The collective of one replica alone, and only its checks.
absl::Status check_collective_alone(const CollectiveRequest& request);
absl::Status run_collective_alone(const CollectiveRequest& request);

}  // namespace ipufeed
