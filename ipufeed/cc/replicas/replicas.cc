#include "replicas/replicas.h"

#include <cstring>
#include <string>
#include <type_traits>

#include "Eigen/Core"
#include "absl/strings/str_cat.h"
#include "core/mutex.h"
#include "core/wait.h"
#include "run/stall.h"
#include "tensorflow/core/framework/types.h"

namespace ipufeed {
namespace {

using tensorflow::DataType;

// Fewer bytes than this are reduced by the last to arrive: the others sleep, and to
// wake them for their parts would take longer.
constexpr std::int64_t kAloneBytes = 32 << 10;

// The dtype in which a dtype is summed.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, Eigen::half> ||
                                   std::is_same_v<T, tensorflow::bfloat16>,
                               float, T>;

// Elements that are reduced at a time. Their sums stay in the first cache, and loops
// over that many are what a compiler makes wide instructions of.
constexpr std::int64_t kBlock = 1024;

template <class S>
using Block = Eigen::Array<S, Eigen::Dynamic, 1, 0, kBlock, 1>;

template <class S>
void reduce(Reduction reduction, const Block<S>& from, Block<S>* sums) {
  switch (reduction) {
    case Reduction::kAdd:
      *sums += from;
      break;
    case Reduction::kMultiply:
      *sums *= from;
      break;
    // By hand: what Eigen makes of NaN depends on the place in the block.
    case Reduction::kMin:
      for (Eigen::Index i = 0; i < from.size(); ++i) {
        if (from[i] < (*sums)[i]) (*sums)[i] = from[i];
      }
      break;
    case Reduction::kMax:
      for (Eigen::Index i = 0; i < from.size(); ++i) {
        if ((*sums)[i] < from[i]) (*sums)[i] = from[i];
      }
      break;
  }
}

// The tensor number `index` of each replica of a group.
struct Group {
  const std::vector<const CollectiveRequest*>& requests;
  std::size_t first;
  std::size_t size;
  std::size_t index;

  const Brought& of(std::size_t member) const {
    return requests[first + member]->tensors[index];
  }
};

// A block of what a member of a group has brought.
template <class T>
auto block_of(const void* data, std::int64_t begin, std::int64_t count) {
  using Values = Eigen::Array<T, Eigen::Dynamic, 1>;
  return Eigen::Map<const Values>(static_cast<const T*>(data) + begin, count)
      .template cast<Sum<T>>();
}

// `count` elements, of a block at most, of the reduction over a group.
template <class T>
void reduce_block(const Group& group, const CollectiveRequest& request,
                  std::int64_t begin, std::int64_t count, T* to) {
  Block<Sum<T>> sums = block_of<T>(group.of(0).input, begin, count);
  Block<Sum<T>> next(count);
  for (std::size_t r = 1; r < group.size; ++r) {
    next = block_of<T>(group.of(r).input, begin, count);
    reduce(request.reduction, next, &sums);
  }
  if (request.collective == Collective::kMean) sums /= static_cast<Sum<T>>(group.size);
  Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>(to, count) = sums.template cast<T>();
}

// The part of the member `member`: with what is read by others, each writes results
// that no other member writes.
template <class T>
void part_of(const Group& group, const CollectiveRequest& request, std::size_t member) {
  const auto size = static_cast<std::int64_t>(group.size);
  const auto own = static_cast<std::int64_t>(member);
  const Brought& mine = group.of(member);
  auto* const to = static_cast<T*>(mine.result);
  if (request.collective == Collective::kReduceScatter) {
    const std::int64_t begin = std::min(own * mine.result_count, mine.count);
    const std::int64_t end = std::min(begin + mine.result_count, mine.count);
    for (std::int64_t i = begin; i < end; i += kBlock) {
      reduce_block(group, request, i, std::min(kBlock, end - i), to + (i - begin));
    }
    std::fill(to + (end - begin), to + mine.result_count, static_cast<T>(0.0F));
    return;
  }
  const std::int64_t begin = mine.count * own / size;
  const std::int64_t end = mine.count * (own + 1) / size;
  for (std::int64_t i = begin; i < end; i += kBlock) {
    const std::int64_t count = std::min(kBlock, end - i);
    reduce_block(group, request, i, count, to + i);
    for (std::size_t r = 0; r < group.size; ++r) {
      if (r == member) continue;
      std::memcpy(static_cast<T*>(group.of(r).result) + i, to + i,
                  static_cast<std::size_t>(count) * sizeof(T));
    }
  }
}

// Collectives that only copy.
void move_part(const Group& group, const CollectiveRequest& request,
               std::size_t member) {
  const Brought& mine = group.of(member);
  const std::int64_t width = tensorflow::DataTypeSize(mine.dtype);
  if (request.collective == Collective::kBroadcast) {
    // The member that has it may have brought the same memory for its result.
    if (member > 0) {
      std::memcpy(mine.result, group.of(0).input,
                  static_cast<std::size_t>(mine.count * width));
    }
    return;
  }
  const auto size = static_cast<std::int64_t>(group.size);
  const bool gathers = request.collective == Collective::kGather;
  const std::int64_t bytes = (gathers ? mine.count : mine.count / size) * width;
  for (std::size_t r = 0; r < group.size; ++r) {
    const std::int64_t from = gathers ? 0 : static_cast<std::int64_t>(member) * bytes;
    std::memcpy(static_cast<char*>(mine.result) + static_cast<std::int64_t>(r) * bytes,
                static_cast<const char*>(group.of(r).input) + from,
                static_cast<std::size_t>(bytes));
  }
}

bool is_reduced(Collective collective) {
  return collective != Collective::kGather && collective != Collective::kAllToAll &&
         collective != Collective::kBroadcast;
}

// For requests that have been checked.
void do_part(const std::vector<const CollectiveRequest*>& requests,
             std::size_t replica) {
  const CollectiveRequest& request = *requests[replica];
  const std::size_t size =
      request.group == 0 ? requests.size() : static_cast<std::size_t>(request.group);
  const std::size_t first = replica / size * size;
  for (std::size_t index = 0; index < request.tensors.size(); ++index) {
    const Group group{requests, first, size, index};
    const std::size_t member = replica - first;
    if (!is_reduced(request.collective)) {
      move_part(group, request, member);
      continue;
    }
    switch (request.tensors[index].dtype) {
      case tensorflow::DT_FLOAT:
        part_of<float>(group, request, member);
        break;
      case tensorflow::DT_DOUBLE:
        part_of<double>(group, request, member);
        break;
      case tensorflow::DT_HALF:
        part_of<Eigen::half>(group, request, member);
        break;
      case tensorflow::DT_BFLOAT16:
        part_of<tensorflow::bfloat16>(group, request, member);
        break;
      case tensorflow::DT_INT32:
        part_of<std::int32_t>(group, request, member);
        break;
      case tensorflow::DT_INT64:
        part_of<std::int64_t>(group, request, member);
        break;
      default:
        break;  // refused by check_dtypes()
    }
  }
}

absl::Status check_dtypes(const CollectiveRequest& request) {
  if (!is_reduced(request.collective)) return absl::OkStatus();
  for (const Brought& each : request.tensors) {
    switch (each.dtype) {
      case tensorflow::DT_FLOAT:
      case tensorflow::DT_DOUBLE:
      case tensorflow::DT_HALF:
      case tensorflow::DT_BFLOAT16:
      case tensorflow::DT_INT32:
      case tensorflow::DT_INT64:
        continue;
      default:
        return absl::InvalidArgumentError(absl::StrCat(
            "Replicas cannot reduce ", tensorflow::DataTypeString(each.dtype),
            ": the dtype must be one of float32, float16, bfloat16, float64, int32, "
            "int64. Use tf.cast."));
    }
  }
  return absl::OkStatus();
}

std::int64_t bytes_of(const CollectiveRequest& request) {
  std::int64_t bytes = 0;
  for (const Brought& each : request.tensors) {
    bytes += each.count * tensorflow::DataTypeSize(each.dtype);
  }
  return bytes;
}

std::string count_of(std::int64_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string describe(const CollectiveRequest& request) {
  return absl::StrCat(
      name_of(request), " of ",
      count_of(static_cast<std::int64_t>(request.tensors.size()), "tensor"), ", ",
      count_of(bytes_of(request), "byte"));
}

bool same(const CollectiveRequest& a, const CollectiveRequest& b) {
  if (a.collective != b.collective || a.reduction != b.reduction ||
      a.group != b.group || a.tensors.size() != b.tensors.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensors[i].dtype != b.tensors[i].dtype ||
        a.tensors[i].count != b.tensors[i].count) {
      return false;
    }
  }
  return true;
}

// The argument with the number of replicas that take part.
const char* argument_of(const CollectiveRequest& request) {
  switch (request.collective) {
    case Collective::kGather:
    case Collective::kReduceScatter:
      return "`replication_factor`";
    case Collective::kAllToAll:
      return "`number_of_replicas`";
    default:
      return "`replica_group_size`";
  }
}

// Whether the sizes fit the number of replicas: the program may have been built for
// another one.
absl::Status check_sizes(const CollectiveRequest& request, std::int64_t replicas) {
  if (request.group < 0 || (request.group > 0 && replicas % request.group != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        argument_of(request), " of ", name_of(request),
        " must divide the number of replicas, got ", request.group, " for ", replicas,
        ". The replicas are the IPUs of the device, divided by the shards of the "
        "program."));
  }
  const std::int64_t members = request.group == 0 ? replicas : request.group;
  for (const Brought& each : request.tensors) {
    std::int64_t wanted = each.count;
    if (request.collective == Collective::kGather) wanted = each.count * members;
    if (request.collective == Collective::kReduceScatter) {
      wanted = (each.count + members - 1) / members;
    }
    const bool divides =
        request.collective != Collective::kAllToAll || each.count % members == 0;
    if (each.result_count == wanted && divides) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "The program was built with ", name_of(request),
        " for another number of replicas than the ", members,
        " that there are: ", argument_of(request), " must be ", members, "."));
  }
  return absl::OkStatus();
}

absl::Status stopped_in_collective(const Program& program, int replica) {
  const absl::Status why = program.stop_status();
  return absl::Status(why.code(),
                      absl::StrCat("The program was stopped while replica ", replica,
                                   " waited for the others: ", why.message()));
}

}  // namespace

absl::Status check_collective(std::int64_t collective, std::int64_t reduction) {
  constexpr auto kLastCollective = static_cast<std::int64_t>(Collective::kBroadcast);
  constexpr auto kLastReduction = static_cast<std::int64_t>(Reduction::kMax);
  if (collective >= 0 && collective <= kLastCollective && reduction >= 0 &&
      reduction <= kLastReduction) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "`collective` must be in [0, ", kLastCollective, "] and `reduction` in [0, ",
      kLastReduction, "], got ", collective, " and ", reduction, "."));
}

const char* name_of(const CollectiveRequest& request) {
  switch (request.collective) {
    case Collective::kReduce:
      return request.reduction == Reduction::kAdd ? "a sum (cross_replica_sum)"
                                                  : "a reduction";
    case Collective::kMean:
      return "a mean (cross_replica_mean, CrossReplicaOptimizer)";
    case Collective::kGather:
      return "an all_gather";
    case Collective::kReduceScatter:
      return "a reduce_scatter";
    case Collective::kAllToAll:
      return "an all_to_all";
    case Collective::kBroadcast:
      return "what replica 0 has got from the other processes";
  }
  return "a collective";
}

Replicas::Replicas(int count, bool is_stage)
    : is_stage_(is_stage),
      barrier_(static_cast<std::size_t>(count)),
      requests_(static_cast<std::size_t>(count)),
      gone_(static_cast<std::size_t>(count)) {}

absl::Status Replicas::run_collective(const Program& program, int replica,
                                      const CollectiveRequest& request,
                                      std::int64_t* arrived_ns) {
  TF_RETURN_IF_ERROR(check_sizes(request, count()));
  TF_RETURN_IF_ERROR(check_dtypes(request));
  const auto own = static_cast<std::size_t>(replica);
  requests_[own] = &request;
  const bool alone = bytes_of(request) < kAloneBytes;
  const auto begin = [this, alone] {
    arrived_ns_ = now_ns();
    outcome_ = check();
    if (!outcome_.ok()) return false;
    if (!alone) return true;
    for (std::size_t r = 0; r < requests_.size(); ++r) do_part(requests_, r);
    return false;
  };
  struct Patience {
    const Program& program;
    const int replica;
    StallWatch stall;

    std::int64_t next_report_ns() { return stall.next_report_ns(); }
    void report(const ReplicaBarrier::Attendance& attendance) {
      stall.report(program,
                   absl::StrCat("replica ", replica, " waits in a collective, and ",
                                replicas_have(attendance.missing), " not arrived"));
    }
  } patience{program, replica, {}};
  ReplicaBarrier::Attendance attendance;
  const auto outcome = barrier_.arrive_and_wait(
      own, begin, [this, own] { do_part(requests_, own); },
      // Program::stop has the program's lock when it wakes the waiters, so that a
      // waiter asks the program for nothing but this.
      [&program] { return program.stopped(); }, patience, &attendance);
  switch (outcome) {
    case ReplicaBarrier::Outcome::kDone:
      *arrived_ns = arrived_ns_;
      return outcome_;
    case ReplicaBarrier::Outcome::kEnded:
      return ended(attendance, request);
    case ReplicaBarrier::Outcome::kStopped:
      break;
  }
  return stopped_in_collective(program, replica);
}

// With what began, when all are here.
absl::Status Replicas::check() const {
  for (std::size_t r = 1; r < requests_.size(); ++r) {
    if (same(*requests_[0], *requests_[r])) continue;
    return absl::InternalError(absl::StrCat(
        "The replicas are not at the same collective: replica 0 is at ",
        describe(*requests_[0]), ", replica ", r, " at ", describe(*requests_[r]),
        ". A collective must not depend on a value that differs between replicas."));
  }
  return absl::OkStatus();
}

absl::Status Replicas::ended(const ReplicaBarrier::Attendance& attendance,
                             const CollectiveRequest& request) const {
  std::string ended = replicas_have(attendance.ended);
  ended[0] = 'R';
  const bool one = attendance.ended.size() == 1;
  return absl::InternalError(
      absl::StrCat(ended, " ended", is_stage_ ? " this execution of the stage" : "",
                   ", and ", replicas_of(attendance.here),
                   attendance.here.size() == 1 ? " waits for " : " wait for ",
                   one ? "it" : "them", " with ", describe(request),
                   ". All replicas must come to each collective: it must not be in a "
                   "branch or a loop "
                   "whose condition differs between them."));
}

Replicas& Replicas::of_ipu(int ipu, std::uint64_t part) {
  MutexLock lock(mutex_);
  const auto found = of_ipus_.find({ipu, part});
  if (found != of_ipus_.end()) return *found->second;
  auto made = std::make_unique<Replicas>(count(), /*is_stage=*/true);
  for (int r = 0; r < count(); ++r) {
    if (gone_[static_cast<std::size_t>(r)]) made->leave_for_good(r);
  }
  return *of_ipus_.emplace(std::pair(ipu, part), std::move(made)).first->second;
}

void Replicas::leave(int replica) { barrier_.leave(static_cast<std::size_t>(replica)); }

void Replicas::leave_for_good(int replica) {
  barrier_.leave_for_good(static_cast<std::size_t>(replica));
  MutexLock lock(mutex_);
  gone_[static_cast<std::size_t>(replica)] = true;
  for (const auto& [ipu, replicas] : of_ipus_) replicas->leave_for_good(replica);
}

void Replicas::wake() {
  barrier_.wake();
  MutexLock lock(mutex_);
  for (const auto& [ipu, replicas] : of_ipus_) replicas->wake();
}

absl::Status check_collective_alone(const CollectiveRequest& request) {
  TF_RETURN_IF_ERROR(check_sizes(request, 1));
  return check_dtypes(request);
}

absl::Status run_collective_alone(const CollectiveRequest& request) {
  TF_RETURN_IF_ERROR(check_collective_alone(request));
  do_part({&request}, 0);
  return absl::OkStatus();
}

}  // namespace ipufeed
