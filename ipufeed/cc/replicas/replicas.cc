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

// Fewer bytes than this are reduced by the last to come: the others sleep, and to
// wake them for their shares would take longer.
constexpr std::int64_t kAloneBytes = 32 << 10;

// What a dtype is summed in.
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
  const std::vector<const Meeting*>& meetings;
  std::size_t first;
  std::size_t size;
  std::size_t index;

  const Brought& of(std::size_t member) const {
    return meetings[first + member]->tensors[index];
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
void reduce_block(const Group& group, const Meeting& meeting, std::int64_t begin,
                  std::int64_t count, T* to) {
  Block<Sum<T>> sums = block_of<T>(group.of(0).input, begin, count);
  Block<Sum<T>> next(count);
  for (std::size_t r = 1; r < group.size; ++r) {
    next = block_of<T>(group.of(r).input, begin, count);
    reduce(meeting.reduction, next, &sums);
  }
  if (meeting.collective == Collective::kMean) sums /= static_cast<Sum<T>>(group.size);
  Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>(to, count) = sums.template cast<T>();
}

// The part of the member `member`: with what is read by others, each writes results
// that no other member writes.
template <class T>
void share_of(const Group& group, const Meeting& meeting, std::size_t member) {
  const auto size = static_cast<std::int64_t>(group.size);
  const auto own = static_cast<std::int64_t>(member);
  const Brought& mine = group.of(member);
  auto* const to = static_cast<T*>(mine.result);
  if (meeting.collective == Collective::kReduceScatter) {
    const std::int64_t begin = std::min(own * mine.result_count, mine.count);
    const std::int64_t end = std::min(begin + mine.result_count, mine.count);
    for (std::int64_t i = begin; i < end; i += kBlock) {
      reduce_block(group, meeting, i, std::min(kBlock, end - i), to + (i - begin));
    }
    std::fill(to + (end - begin), to + mine.result_count, static_cast<T>(0.0F));
    return;
  }
  const std::int64_t begin = mine.count * own / size;
  const std::int64_t end = mine.count * (own + 1) / size;
  for (std::int64_t i = begin; i < end; i += kBlock) {
    const std::int64_t count = std::min(kBlock, end - i);
    reduce_block(group, meeting, i, count, to + i);
    for (std::size_t r = 0; r < group.size; ++r) {
      if (r == member) continue;
      std::memcpy(static_cast<T*>(group.of(r).result) + i, to + i,
                  static_cast<std::size_t>(count) * sizeof(T));
    }
  }
}

// What is copied as it is.
void move_share(const Group& group, const Meeting& meeting, std::size_t member) {
  const Brought& mine = group.of(member);
  const std::int64_t width = tensorflow::DataTypeSize(mine.dtype);
  if (meeting.collective == Collective::kBroadcast) {
    // The member that has it may have brought the same memory for its result.
    if (member > 0) {
      std::memcpy(mine.result, group.of(0).input,
                  static_cast<std::size_t>(mine.count * width));
    }
    return;
  }
  const auto size = static_cast<std::int64_t>(group.size);
  const bool gathers = meeting.collective == Collective::kGather;
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

// Of a meeting that has been checked.
void do_share(const std::vector<const Meeting*>& meetings, std::size_t replica) {
  const Meeting& meeting = *meetings[replica];
  const std::size_t size =
      meeting.group == 0 ? meetings.size() : static_cast<std::size_t>(meeting.group);
  const std::size_t first = replica / size * size;
  for (std::size_t index = 0; index < meeting.tensors.size(); ++index) {
    const Group group{meetings, first, size, index};
    const std::size_t member = replica - first;
    if (!is_reduced(meeting.collective)) {
      move_share(group, meeting, member);
      continue;
    }
    switch (meeting.tensors[index].dtype) {
      case tensorflow::DT_FLOAT:
        share_of<float>(group, meeting, member);
        break;
      case tensorflow::DT_DOUBLE:
        share_of<double>(group, meeting, member);
        break;
      case tensorflow::DT_HALF:
        share_of<Eigen::half>(group, meeting, member);
        break;
      case tensorflow::DT_BFLOAT16:
        share_of<tensorflow::bfloat16>(group, meeting, member);
        break;
      case tensorflow::DT_INT32:
        share_of<std::int32_t>(group, meeting, member);
        break;
      case tensorflow::DT_INT64:
        share_of<std::int64_t>(group, meeting, member);
        break;
      default:
        break;  // refused by check_dtypes()
    }
  }
}

absl::Status check_dtypes(const Meeting& meeting) {
  if (!is_reduced(meeting.collective)) return absl::OkStatus();
  for (const Brought& each : meeting.tensors) {
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

std::int64_t bytes_of(const Meeting& meeting) {
  std::int64_t bytes = 0;
  for (const Brought& each : meeting.tensors) {
    bytes += each.count * tensorflow::DataTypeSize(each.dtype);
  }
  return bytes;
}

std::string count_of(std::int64_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string describe(const Meeting& meeting) {
  return absl::StrCat(
      name_of(meeting), " of ",
      count_of(static_cast<std::int64_t>(meeting.tensors.size()), "tensor"), ", ",
      count_of(bytes_of(meeting), "byte"));
}

bool same(const Meeting& a, const Meeting& b) {
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

// The argument that says how many replicas take part.
const char* argument_of(const Meeting& meeting) {
  switch (meeting.collective) {
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
absl::Status check_sizes(const Meeting& meeting, std::int64_t replicas) {
  if (meeting.group < 0 || (meeting.group > 0 && replicas % meeting.group != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        argument_of(meeting), " of ", name_of(meeting),
        " must divide the number of replicas, got ", meeting.group, " for ", replicas,
        ". The replicas are the IPUs of the device, divided by the shards of the "
        "program."));
  }
  const std::int64_t members = meeting.group == 0 ? replicas : meeting.group;
  for (const Brought& each : meeting.tensors) {
    std::int64_t wanted = each.count;
    if (meeting.collective == Collective::kGather) wanted = each.count * members;
    if (meeting.collective == Collective::kReduceScatter) {
      wanted = (each.count + members - 1) / members;
    }
    const bool divides =
        meeting.collective != Collective::kAllToAll || each.count % members == 0;
    if (each.result_count == wanted && divides) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "The program was built with ", name_of(meeting),
        " for another number of replicas than the ", members,
        " that there are: ", argument_of(meeting), " must be ", members, "."));
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

const char* name_of(const Meeting& meeting) {
  switch (meeting.collective) {
    case Collective::kReduce:
      return meeting.reduction == Reduction::kAdd ? "a sum (cross_replica_sum)"
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
      rendezvous_(static_cast<std::size_t>(count)),
      meetings_(static_cast<std::size_t>(count)),
      gone_(static_cast<std::size_t>(count)) {}

absl::Status Replicas::meet(const Program& program, int replica, const Meeting& meeting,
                            std::int64_t* met_ns) {
  TF_RETURN_IF_ERROR(check_sizes(meeting, count()));
  TF_RETURN_IF_ERROR(check_dtypes(meeting));
  const auto own = static_cast<std::size_t>(replica);
  meetings_[own] = &meeting;
  const bool alone = bytes_of(meeting) < kAloneBytes;
  const auto begin = [this, alone] {
    met_ns_ = now_ns();
    outcome_ = check();
    if (!outcome_.ok()) return false;
    if (!alone) return true;
    for (std::size_t r = 0; r < meetings_.size(); ++r) do_share(meetings_, r);
    return false;
  };
  struct Patience {
    const Program& program;
    const int replica;
    StallWatch stall;

    std::int64_t next_report_ns() { return stall.next_report_ns(); }
    void report(const Rendezvous::Attendance& attendance) {
      stall.report(program,
                   absl::StrCat("replica ", replica, " waits in a collective, and ",
                                replicas_have(attendance.missing), " not come"));
    }
  } patience{program, replica, {}};
  Rendezvous::Attendance attendance;
  const auto outcome = rendezvous_.meet(
      own, begin, [this, own] { do_share(meetings_, own); },
      // Program::stop has the program's lock when it wakes the waiters, so that a
      // waiter asks the program for nothing but this.
      [&program] { return program.stopped(); }, patience, &attendance);
  switch (outcome) {
    case Rendezvous::Outcome::kMet:
      *met_ns = met_ns_;
      return outcome_;
    case Rendezvous::Outcome::kEnded:
      return ended(attendance, meeting);
    case Rendezvous::Outcome::kStopped:
      break;
  }
  return stopped_in_collective(program, replica);
}

// With what began, when all are here.
absl::Status Replicas::check() const {
  for (std::size_t r = 1; r < meetings_.size(); ++r) {
    if (same(*meetings_[0], *meetings_[r])) continue;
    return absl::InternalError(absl::StrCat(
        "The replicas do not meet for the same collective: replica 0 has come for ",
        describe(*meetings_[0]), ", replica ", r, " for ", describe(*meetings_[r]),
        ". A collective must not depend on a value that differs between replicas."));
  }
  return absl::OkStatus();
}

absl::Status Replicas::ended(const Rendezvous::Attendance& attendance,
                             const Meeting& meeting) const {
  std::string ended = replicas_have(attendance.ended);
  ended[0] = 'R';
  const bool one = attendance.ended.size() == 1;
  return absl::InternalError(
      absl::StrCat(ended, " ended", is_stage_ ? " this execution of the stage" : "",
                   ", and ", replicas_of(attendance.here),
                   attendance.here.size() == 1 ? " waits for " : " wait for ",
                   one ? "it" : "them", " with ", describe(meeting),
                   ". All replicas must come to each collective: it must not be in a "
                   "branch or a loop "
                   "whose condition differs between them."));
}

Replicas& Replicas::of_chip(int chip, std::uint64_t part) {
  MutexLock lock(mutex_);
  const auto found = of_chips_.find({chip, part});
  if (found != of_chips_.end()) return *found->second;
  auto made = std::make_unique<Replicas>(count(), /*is_stage=*/true);
  for (int r = 0; r < count(); ++r) {
    if (gone_[static_cast<std::size_t>(r)]) made->leave_for_good(r);
  }
  return *of_chips_.emplace(std::pair(chip, part), std::move(made)).first->second;
}

void Replicas::leave(int replica) {
  rendezvous_.leave(static_cast<std::size_t>(replica));
}

void Replicas::leave_for_good(int replica) {
  rendezvous_.leave_for_good(static_cast<std::size_t>(replica));
  MutexLock lock(mutex_);
  gone_[static_cast<std::size_t>(replica)] = true;
  for (const auto& [chip, replicas] : of_chips_) replicas->leave_for_good(replica);
}

void Replicas::wake() {
  rendezvous_.wake();
  MutexLock lock(mutex_);
  for (const auto& [chip, replicas] : of_chips_) replicas->wake();
}

absl::Status meet_alone(const Meeting& meeting) {
  TF_RETURN_IF_ERROR(check_sizes(meeting, 1));
  TF_RETURN_IF_ERROR(check_dtypes(meeting));
  do_share({&meeting}, 0);
  return absl::OkStatus();
}

}  // namespace ipufeed
