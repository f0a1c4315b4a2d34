#include "replicas.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "stall.h"
#include "tensorflow/core/framework/types.h"
#include "wait.h"

namespace ipufeed {
namespace {

using tensorflow::DataType;

// Fewer bytes than this are exchanged by who comes last: the others sleep, and to wake
// them for their shares would take longer.
constexpr std::int64_t kAloneBytes = 32 << 10;

// What a dtype is summed in.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, Eigen::half> ||
                                   std::is_same_v<T, tensorflow::bfloat16>,
                               float, T>;

template <class S>
S reduce(Reduction reduction, S a, S b) {
  switch (reduction) {
    case Reduction::kAdd:
      return static_cast<S>(a + b);
    case Reduction::kMultiply:
      return static_cast<S>(a * b);
    case Reduction::kMin:
      return b < a ? b : a;
    case Reduction::kMax:
      return a < b ? b : a;
  }
  return a;
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

// Element i of the reduction over a group.
template <class T>
T reduced(const Group& group, const Meeting& meeting, std::int64_t i) {
  auto sum = static_cast<Sum<T>>(static_cast<const T*>(group.of(0).input)[i]);
  for (std::size_t r = 1; r < group.size; ++r) {
    sum = reduce(meeting.reduction, sum,
                 static_cast<Sum<T>>(static_cast<const T*>(group.of(r).input)[i]));
  }
  if (meeting.exchange == Exchange::kMean) {
    sum = static_cast<Sum<T>>(sum / static_cast<Sum<T>>(group.size));
  }
  return static_cast<T>(sum);
}

// The part of the member `member`: with what is read by others, each writes results
// that nobody else does.
template <class T>
void share_of(const Group& group, const Meeting& meeting, std::size_t member) {
  const auto size = static_cast<std::int64_t>(group.size);
  const auto own = static_cast<std::int64_t>(member);
  const Brought& mine = group.of(member);
  if (meeting.exchange == Exchange::kReduceScatter) {
    auto* to = static_cast<T*>(mine.result);
    for (std::int64_t i = 0; i < mine.result_count; ++i) {
      const std::int64_t from = own * mine.result_count + i;
      to[i] =
          from < mine.count ? reduced<T>(group, meeting, from) : static_cast<T>(0.0F);
    }
    return;
  }
  const std::int64_t begin = mine.count * own / size;
  const std::int64_t end = mine.count * (own + 1) / size;
  auto* to = static_cast<T*>(mine.result);
  for (std::int64_t i = begin; i < end; ++i) to[i] = reduced<T>(group, meeting, i);
  for (std::size_t r = 0; r < group.size; ++r) {
    if (r == member) continue;
    std::memcpy(static_cast<T*>(group.of(r).result) + begin, to + begin,
                static_cast<std::size_t>(end - begin) * sizeof(T));
  }
}

// What is copied as it is.
void move_share(const Group& group, const Meeting& meeting, std::size_t member) {
  const Brought& mine = group.of(member);
  const std::int64_t width = tensorflow::DataTypeSize(mine.dtype);
  if (meeting.exchange == Exchange::kBroadcast) {
    // Who has it may have brought the same memory for its result.
    if (member > 0) {
      std::memcpy(mine.result, group.of(0).input,
                  static_cast<std::size_t>(mine.count * width));
    }
    return;
  }
  const auto size = static_cast<std::int64_t>(group.size);
  const bool gathers = meeting.exchange == Exchange::kGather;
  const std::int64_t bytes = (gathers ? mine.count : mine.count / size) * width;
  for (std::size_t r = 0; r < group.size; ++r) {
    const std::int64_t from = gathers ? 0 : static_cast<std::int64_t>(member) * bytes;
    std::memcpy(static_cast<char*>(mine.result) + static_cast<std::int64_t>(r) * bytes,
                static_cast<const char*>(group.of(r).input) + from,
                static_cast<std::size_t>(bytes));
  }
}

absl::Status do_share(const std::vector<const Meeting*>& meetings,
                      std::size_t replica) {
  const Meeting& meeting = *meetings[replica];
  const std::size_t size =
      meeting.group == 0 ? meetings.size() : static_cast<std::size_t>(meeting.group);
  const std::size_t first = replica / size * size;
  for (std::size_t index = 0; index < meeting.tensors.size(); ++index) {
    const Group group{meetings, first, size, index};
    const std::size_t member = replica - first;
    if (meeting.exchange == Exchange::kGather ||
        meeting.exchange == Exchange::kAllToAll ||
        meeting.exchange == Exchange::kBroadcast) {
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
        return absl::InvalidArgumentError(absl::StrCat(
            "Replicas cannot reduce ",
            tensorflow::DataTypeString(meeting.tensors[index].dtype),
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

const char* name_of(Exchange exchange) {
  switch (exchange) {
    case Exchange::kReduce:
      return "a reduction";
    case Exchange::kMean:
      return "a mean";
    case Exchange::kGather:
      return "an all_gather";
    case Exchange::kReduceScatter:
      return "a reduce_scatter";
    case Exchange::kAllToAll:
      return "an all_to_all";
    case Exchange::kBroadcast:
      return "a broadcast";
  }
  return "an exchange";
}

std::string describe(const Meeting& meeting) {
  return absl::StrCat(name_of(meeting.exchange), " of ", meeting.tensors.size(),
                      " tensors, ", bytes_of(meeting), " bytes");
}

bool same(const Meeting& a, const Meeting& b) {
  if (a.exchange != b.exchange || a.reduction != b.reduction || a.group != b.group ||
      a.tensors.size() != b.tensors.size()) {
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

// Whether the sizes fit the number of replicas: the program may have been built for
// another one.
absl::Status check_sizes(const Meeting& meeting, std::int64_t replicas) {
  if (meeting.group < 0 || (meeting.group > 0 && replicas % meeting.group != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "The replica group size must divide the number of replicas, got ",
        meeting.group, " for ", replicas,
        ". The replicas are the IPUs of the device, divided by the shards of the "
        "program."));
  }
  const std::int64_t members = meeting.group == 0 ? replicas : meeting.group;
  for (const Brought& each : meeting.tensors) {
    std::int64_t wanted = each.count;
    if (meeting.exchange == Exchange::kGather) wanted = each.count * members;
    if (meeting.exchange == Exchange::kReduceScatter) {
      wanted = (each.count + members - 1) / members;
    }
    const bool divides =
        meeting.exchange != Exchange::kAllToAll || each.count % members == 0;
    if (each.result_count == wanted && divides) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("The program was built with ", name_of(meeting.exchange),
                     " for another number of replicas than the ", members,
                     " that there are: `replication_factor` must be ", members, "."));
  }
  return absl::OkStatus();
}

absl::Status stopped_in_exchange(const Program& program, int replica) {
  const absl::Status why = program.stop_status();
  return absl::Status(why.code(),
                      absl::StrCat("The program was stopped while replica ", replica,
                                   " waited for the others: ", why.message()));
}

}  // namespace

Replicas::Replicas(int count) : meetings_(static_cast<std::size_t>(count)) {}

absl::Status Replicas::meet(const Program& program, int replica,
                            const Meeting& meeting) {
  TF_RETURN_IF_ERROR(check_sizes(meeting, count()));
  std::unique_lock<std::mutex> lock(mutex_);
  // Who is fast may be back before all have left the meeting before.
  if (!wait(&lock, program, replica, Phase::kGathering)) {
    lock.unlock();
    return stopped_in_exchange(program, replica);
  }
  const auto own = static_cast<std::size_t>(replica);
  meetings_[own] = &meeting;
  ++here_;
  const bool alone = bytes_of(meeting) < kAloneBytes;
  if (here_ < count()) {
    const Phase next = alone ? Phase::kLeaving : Phase::kWorking;
    if (!wait(&lock, program, replica, next)) {
      meetings_[own] = nullptr;
      --here_;
      lock.unlock();
      return stopped_in_exchange(program, replica);
    }
  } else {
    outcome_ = check();
    working_ = count();
    if (outcome_.ok() && alone) {
      for (std::size_t r = 0; r < meetings_.size() && outcome_.ok(); ++r) {
        outcome_ = do_share(meetings_, r);
      }
    }
    if (alone || !outcome_.ok()) {
      working_ = 0;
      leaving_ = count();
      phase_ = Phase::kLeaving;
    } else {
      phase_ = Phase::kWorking;
    }
    changed_.notify_all();
  }
  if (phase_ == Phase::kWorking) {
    lock.unlock();
    const absl::Status done = do_share(meetings_, own);
    lock.lock();
    if (outcome_.ok()) outcome_ = done;
    if (--working_ == 0) {
      leaving_ = count();
      phase_ = Phase::kLeaving;
      changed_.notify_all();
    } else {
      // Nobody looks at the program's end here: what this replica has brought must not
      // go while others work with it.
      changed_.wait(lock, [this] { return phase_ == Phase::kLeaving; });
    }
  }
  const absl::Status outcome = outcome_;
  meetings_[own] = nullptr;
  if (--leaving_ == 0) {
    here_ = 0;
    phase_ = Phase::kGathering;
    changed_.notify_all();
  }
  return outcome;
}

// With the lock. False once the program is stopped, unless the meeting has begun.
// A meeting whose replicas disagree goes from gathering to leaving at once.
bool Replicas::wait(std::unique_lock<std::mutex>* lock, const Program& program,
                    int replica, Phase phase) {
  const auto reached = [this, phase] {
    if (phase_ == phase) return true;
    return phase == Phase::kWorking && phase_ == Phase::kLeaving;
  };
  StallWatch stall;
  while (!reached()) {
    if (program.stopped()) return false;
    const std::int64_t deadline_ns = stall.next_report_ns();
    if (deadline_ns == kNoDeadline) {
      changed_.wait(*lock);
      continue;
    }
    changed_.wait_for(*lock, std::chrono::nanoseconds(deadline_ns - now_ns()));
    if (now_ns() < deadline_ns || reached()) continue;
    const std::string missing = replicas_have(
        meetings_.size(), [this](std::size_t r) { return meetings_[r] == nullptr; });
    lock->unlock();
    stall.report(program,
                 absl::StrCat("replica ", replica, " has something to exchange, and ",
                              missing, " not come"));
    lock->lock();
  }
  return true;
}

// With the lock, when all are here.
absl::Status Replicas::check() const {
  for (std::size_t r = 1; r < meetings_.size(); ++r) {
    if (same(*meetings_[0], *meetings_[r])) continue;
    return absl::InternalError(absl::StrCat(
        "The replicas do not meet for the same exchange: replica 0 has come for ",
        describe(*meetings_[0]), ", replica ", r, " for ", describe(*meetings_[r]),
        ". An exchange must not depend on a value that differs between replicas."));
  }
  return absl::OkStatus();
}

Replicas& Replicas::of_chip(int n) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Replicas>& found = of_chips_[n];
  if (found == nullptr) found = std::make_unique<Replicas>(count());
  return *found;
}

void Replicas::wake() {
  // Under the lock: who is about to wait has looked at the program before, or will.
  std::lock_guard<std::mutex> lock(mutex_);
  changed_.notify_all();
  for (const auto& [n, replicas] : of_chips_) replicas->wake();
}

absl::Status meet_alone(const Meeting& meeting) {
  TF_RETURN_IF_ERROR(check_sizes(meeting, 1));
  return do_share({&meeting}, 0);
}

}  // namespace ipufeed
