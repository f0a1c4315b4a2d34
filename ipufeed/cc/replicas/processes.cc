#include "replicas/processes.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "core/ipus.h"
#include "core/mutex.h"
#include "core/wait.h"
#include "run/collective_runs.h"
#include "run/stall.h"
#include "tensorflow/core/framework/types.h"

namespace ipufeed {
namespace {

std::atomic<int> processes{1};
std::atomic<int> own_index{0};
std::atomic<OnCollective> on_collective{nullptr};

constexpr std::size_t kErrorSize = 4096;

// The tensors of one dtype, and the thread that has them reduced. It may outlive its
// caller: a process that does not answer cannot be interrupted.
struct Asked {
  int dtype = 0;
  std::int64_t count = 0;
  std::vector<char> data;
  std::int64_t lane = 0;
  std::int64_t reduction = 0;
  int mean = 0;
  std::int64_t run = 0;
  std::int64_t number = 0;
  std::string what;
  std::atomic<int> wanted{1};
  static_assert(sizeof(std::atomic<int>) == sizeof(int));

  Mutex mutex;
  CondVar answered;
  bool done IPUFEED_GUARDED_BY(mutex) = false;
  absl::Status status IPUFEED_GUARDED_BY(mutex);
};

absl::Status answer_of(Asked* asked) {
  std::string message(kErrorSize, '\0');
  const int code = on_collective.load(std::memory_order_acquire)(
      asked->lane, asked->reduction, asked->mean, asked->dtype, asked->data.data(),
      asked->count, reinterpret_cast<const int*>(&asked->wanted), asked->run,
      asked->number, asked->what.c_str(), message.data(),
      static_cast<std::int64_t>(message.size()));
  if (code == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), message.c_str());
}

void ask(const std::shared_ptr<Asked>& asked) {
  absl::Status status =
      guarded("a collective between processes", [&] { return answer_of(asked.get()); });
  MutexLock lock(asked->mutex);
  asked->status = std::move(status);
  asked->done = true;
  asked->answered.notify_all();
}

absl::Status wait_for_answer(const Program& program, Asked* asked) {
  constexpr std::int64_t kSliceNs = 20'000'000;  // a stop does not wake this wait
  StallWatch stall;
  MutexLock lock(asked->mutex);
  while (!asked->done) {
    const std::int64_t report_ns = stall.next_report_ns();
    asked->answered.wait_for_ns(asked->mutex, kSliceNs);
    if (asked->done) break;
    if (program.stopped()) {
      asked->wanted.store(0, std::memory_order_relaxed);
      const absl::Status why = program.stop_status();
      return absl::Status(
          why.code(),
          absl::StrCat("The program was stopped while process ", process_index(),
                       " waited for the others: ", why.message()));
    }
    if (report_ns != kNoDeadline && now_ns() >= report_ns) {
      stall.report(program, absl::StrCat("process ", process_index(),
                                         " waits in a collective, and of the ",
                                         process_count() - 1,
                                         " others not all have come this far: the "
                                         "program of one is slower, or has ended"));
    }
  }
  return asked->status;
}

}  // namespace

void set_processes(int count, int index, OnCollective ask) {
  on_collective.store(ask, std::memory_order_release);
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
  const Context& context = current_context();
  const std::int64_t run = program.collective_run();
  // By dtype, each in one piece.
  std::map<int, std::vector<const Brought*>> pieces;
  for (const Brought& each : request.tensors) pieces[each.dtype].push_back(&each);
  for (const auto& [dtype, tensors] : pieces) {
    const auto width = static_cast<std::size_t>(
        tensorflow::DataTypeSize(static_cast<tensorflow::DataType>(dtype)));
    const auto asked = std::make_shared<Asked>();
    asked->dtype = dtype;
    for (const Brought* each : tensors) asked->count += each->result_count;
    asked->data.resize(static_cast<std::size_t>(asked->count) * width);
    asked->lane = std::int64_t{program.ordinal()} * kMostIpus + context.ipu;
    asked->reduction = static_cast<std::int64_t>(request.reduction);
    asked->mean = request.collective == Collective::kMean ? 1 : 0;
    asked->run = run;
    asked->what = absl::StrCat(
        name_of(request), " of ", asked->count, " numbers of ",
        tensorflow::DataTypeString(static_cast<tensorflow::DataType>(dtype)));
    char* piece = asked->data.data();
    for (const Brought* each : tensors) {
      const auto bytes = static_cast<std::size_t>(each->result_count) * width;
      if (bytes > 0) std::memcpy(piece, each->result, bytes);
      piece += bytes;
    }
    asked->number =
        begin_collective_wait(program.ordinal(), asked->lane, run, asked->what);
    try {
      std::thread(ask, asked).detach();
    } catch (const std::system_error&) {
      end_collective_wait(program.ordinal(), asked->lane);
      return absl::ResourceExhaustedError(
          "There is no thread for a collective between processes.");
    }
    const absl::Status answer = wait_for_answer(program, asked.get());
    end_collective_wait(program.ordinal(), asked->lane);
    TF_RETURN_IF_ERROR(answer);
    program.step_clock().take(now_ns());  // as of replicas: replica_lowering.cc
    piece = asked->data.data();
    for (const Brought* each : tensors) {
      const auto bytes = static_cast<std::size_t>(each->result_count) * width;
      if (bytes > 0) std::memcpy(each->result, piece, bytes);
      piece += bytes;
    }
  }
  return absl::OkStatus();
}

}  // namespace ipufeed
