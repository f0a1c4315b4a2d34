#include "replicas/processes.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ipus.h"
#include "core/wait.h"
#include "replicas/collective_thread.h"
#include "run/collective_runs.h"
#include "run/stall.h"
#include "tensorflow/core/framework/types.h"

namespace ipufeed {
namespace {

// [1] set_processes() -> reduce_piece(): state that Python prepared before is visible
// to the calls. The numbers are relaxed: set_processes() is called between programs.
std::atomic<int> processes{1};
std::atomic<int> own_index{0};
std::atomic<OnCollective> on_collective{nullptr};

// After this time, and then each time after as long again, a wait checks that the other
// processes are alive and in the same program.
constexpr std::int64_t kCheckNs = 500'000'000;

// The check of a wait: a call on a thread of its own.
class PeerCheck {
 public:
  // request, listener: of the wait.
  PeerCheck(CollectiveCall request, Wakeable* listener)
      : request_(std::move(request)), listener_(listener) {
    request_.checks = true;
    request_.count = 0;
  }
  ~PeerCheck() {
    if (thread_ != nullptr) thread_->give_back();
  }
  PeerCheck(const PeerCheck&) = delete;
  PeerCheck& operator=(const PeerCheck&) = delete;

  // When next() has something to do, unless the listener is woken before.
  std::int64_t next_ns() const { return thread_ == nullptr ? next_ns_ : kNoDeadline; }

  // Starts the next check if it is due. The error of the last one, if it has ended.
  absl::Status next() {
    if (thread_ != nullptr && thread_->has_returned()) {
      absl::Status status = thread_->status();
      thread_->give_back();
      thread_ = nullptr;
      next_ns_ = now_ns() + kCheckNs;
      return status;
    }
    if (thread_ == nullptr && now_ns() >= next_ns_) {
      thread_ = CollectiveThread::take();
      if (thread_ == nullptr) {
        next_ns_ = now_ns() + kCheckNs;
      } else {
        thread_->start(request_, listener_);
      }
    }
    return absl::OkStatus();
  }

 private:
  CollectiveCall request_;
  Wakeable* const listener_;
  CollectiveThread* thread_ = nullptr;
  std::int64_t next_ns_ = now_ns() + kCheckNs;
};

absl::Status wait_for_answer(Program* program, const CollectiveCall& call,
                             CollectiveThread* thread) {
  StallWatch stall;
  const WokenByStop woken(program, thread);
  PeerCheck check(call, thread);
  for (;;) {
    const std::int64_t report_ns = stall.next_report_ns();
    if (thread->wait(*program, std::min(report_ns, check.next_ns()))) {
      return thread->status();
    }
    if (program->stopped()) {
      const absl::Status why = program->stop_status();
      return absl::Status(
          why.code(),
          absl::StrCat("The program was stopped while process ", process_index(),
                       " waited for the others: ", why.message()));
    }
    TF_RETURN_IF_ERROR(check.next());
    if (report_ns != kNoDeadline && now_ns() >= report_ns) {
      stall.report(*program, absl::StrCat("process ", process_index(),
                                          " waits in a collective, and of the ",
                                          process_count() - 1,
                                          " others not all have come this far: the "
                                          "program of one is slower, or has ended"));
    }
  }
}

// Reduces the tensors of one dtype, as one piece of memory.
absl::Status reduce_piece(Program* program, const CollectiveRequest& request,
                          tensorflow::DataType dtype,
                          const std::vector<const Brought*>& tensors,
                          CollectiveThread* thread) {
  const auto width = static_cast<std::size_t>(tensorflow::DataTypeSize(dtype));
  CollectiveCall call;
  call.function = on_collective.load(std::memory_order_acquire);  // [1]
  call.stream = std::int64_t{program->ordinal()} * kMostIpus + current_context().ipu;
  call.reduction = static_cast<std::int64_t>(request.reduction);
  call.mean = request.collective == Collective::kMean;
  call.dtype = dtype;
  for (const Brought* each : tensors) call.count += each->result_count;
  call.run = program->collective_run();
  call.what = absl::StrCat(name_of(request), " of ", call.count, " numbers of ",
                           tensorflow::DataTypeString(dtype));
  std::byte* const data =
      thread->reserve(static_cast<std::size_t>(call.count + kTags) * width);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("The memory for ", call.what, " between processes is lacking."));
  }
  std::byte* piece = data;
  for (const Brought* each : tensors) {
    const auto bytes = static_cast<std::size_t>(each->result_count) * width;
    if (bytes > 0) std::memcpy(piece, each->input, bytes);
    piece += bytes;
  }
  TF_RETURN_IF_ERROR(begin_collective_wait(program->ordinal(), call.stream, call.run,
                                           call.what, &call.number));
  thread->start(call, nullptr);
  const absl::Status status = wait_for_answer(program, call, thread);
  end_collective_wait(program->ordinal(), call.stream);
  TF_RETURN_IF_ERROR(status);
  program->step_clock().take(now_ns());  // as of replicas: replica_lowering.cc
  const std::byte* reduced = thread->reduced();
  for (const Brought* each : tensors) {
    const auto bytes = static_cast<std::size_t>(each->result_count) * width;
    if (bytes > 0) std::memcpy(each->result, reduced, bytes);
    reduced += bytes;
  }
  return absl::OkStatus();
}

}  // namespace

void set_processes(int count, int index, OnCollective ask) {
  on_collective.store(ask, std::memory_order_release);  // [1]
  processes.store(ask == nullptr ? 1 : count, std::memory_order_relaxed);
  own_index.store(ask == nullptr ? 0 : index, std::memory_order_relaxed);
}

int process_count() { return processes.load(std::memory_order_relaxed); }

int process_index() { return own_index.load(std::memory_order_relaxed); }

absl::Status is_between_processes(CollectiveRequest* request, int replicas,
                                  bool* result) {
  const std::int64_t own = replicas;
  const std::int64_t all = own * process_count();
  *result = process_count() > 1 && (request->group == 0 || request->group > own);
  if (!*result) return absl::OkStatus();
  const bool is_sum = request->collective == Collective::kReduce ||
                      request->collective == Collective::kMean;
  if (is_sum && (request->group == 0 || request->group == all)) {
    request->group = 0;
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      "Got ", name_of(*request), " in groups of ", request->group,
      " replicas, and the ", process_count(), " processes have ", own,
      " each. Between processes there are sums and means of all replicas: "
      "cross_replica_sum, cross_replica_mean and CrossReplicaOptimizer, without a "
      "group "
      "or with one of ",
      all,
      ". Other collectives stay within a process: give them groups of at most its ",
      own, " replicas."));
}

absl::Status reduce_over_processes(Program& program, const CollectiveRequest& request) {
  std::map<tensorflow::DataType, std::vector<const Brought*>> pieces;
  for (const Brought& each : request.tensors) pieces[each.dtype].push_back(&each);
  CollectiveThread* const thread = CollectiveThread::take();
  if (thread == nullptr) {
    return absl::ResourceExhaustedError(
        "The system has no more threads for a collective between processes.");
  }
  absl::Status status;
  for (const auto& [dtype, tensors] : pieces) {
    status = reduce_piece(&program, request, dtype, tensors, thread);
    if (!status.ok()) break;
  }
  thread->give_back();
  return status;
}

}  // namespace ipufeed
