#include "device/ipu_threads.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "core/mutex.h"
#include "core/wait.h"
#include "device/pools.h"
#include "run/stall.h"

namespace ipufeed {
namespace {

// Which program has a set of threads, and how often it has taken it.
struct Holder {
  Program* program = nullptr;
  int times = 0;
};

using Sets = std::array<Holder, IpuLease::kSets>;

struct Leases {
  Mutex mutex;
  CondVar changed;  // a set was given back, or a program that waits was stopped
  std::map<int, Sets> sets IPUFEED_GUARDED_BY(mutex);  // by ordinal

  static Leases& get() {
    static auto* leases = new Leases;
    return *leases;
  }

  // The program's set, or else a free one; null if all are taken.
  Holder* find(Program* program) IPUFEED_REQUIRES(mutex) {
    Sets& of_device = sets[program->ordinal()];
    for (const Program* wanted :
         {static_cast<const Program*>(program), static_cast<const Program*>(nullptr)}) {
      for (Holder& holder : of_device) {
        if (holder.program == wanted) return &holder;
      }
    }
    return nullptr;
  }
};

// Wakes the programs that wait for a set, when one of them is stopped.
class LeaseWaiters final : public Wakeable {
 public:
  void wake() override {
    Leases& leases = Leases::get();
    MutexLock lock(leases.mutex);
    leases.changed.notify_all();
  }
};

}  // namespace

// Two of each: one for what computes, and one for a program that waits in the call of
// its own pipeline, part of which runs on the same IPU.
struct Ipu::Threads {
  explicit Threads(const std::string& name)
      : main(name, 2),
        inside(name + "_intra", 2),
        handing_on(&inside),
        eigen(&handing_on, 2) {}

  LazyPool main;
  LazyPool inside;
  PropagatingPool handing_on;
  Eigen::ThreadPoolDevice eigen;
};

Ipu::Ipu(int ordinal, int index, int set)
    : ordinal_(ordinal),
      index_(index),
      threads_(new Threads(absl::StrCat("ipu", ordinal, "_", index,
                                        set == 0 ? "" : absl::StrCat("_", set)))) {}

void Ipu::run(std::function<void()> work) { threads_->main.Schedule(std::move(work)); }

const Eigen::ThreadPoolDevice* Ipu::pool() const { return &threads_->eigen; }

Ipu& ipu(int ordinal, int index, int set) {
  static auto* const mutex = new Mutex;
  static auto* const ipus =
      new std::map<std::tuple<int, int, int>, std::unique_ptr<Ipu>>;
  MutexLock lock(*mutex);
  std::unique_ptr<Ipu>& found = (*ipus)[{ordinal, index, set}];
  if (found == nullptr) found = std::make_unique<Ipu>(ordinal, index, set);
  return *found;
}

absl::Status IpuLease::take(Program* program) {
  Leases& leases = Leases::get();
  StallWatch stall;
  LeaseWaiters waiters;
  std::optional<WokenByStop> woken;
  for (;;) {
    const std::int64_t report_ns = stall.next_report_ns();
    {
      MutexLock lock(leases.mutex);
      Holder* holder = leases.find(program);
      // Only if a stop wakes this wait, and it was not stopped before.
      while (holder == nullptr && woken.has_value() && !program->stopped()) {
        const std::int64_t now = now_ns();
        if (now >= report_ns) break;
        if (report_ns == kNoDeadline) {
          leases.changed.wait(leases.mutex);
        } else {
          leases.changed.wait_for_ns(leases.mutex, report_ns - now);
        }
        holder = leases.find(program);
      }
      if (holder != nullptr) {
        holder->program = program;
        ++holder->times;
        program_ = program;
        set_ = static_cast<int>(holder - leases.sets[program->ordinal()].data());
        return absl::OkStatus();
      }
    }
    if (program->stopped()) {
      const absl::Status why = program->stop_status();
      return absl::Status(why.code(),
                          absl::StrCat("The program was stopped while ", kSets,
                                       " others used the IPUs of /device:IPU:",
                                       program->ordinal(), ": ", why.message()));
    }
    if (!woken.has_value()) {
      woken.emplace(program, &waiters);
    } else if (now_ns() >= report_ns) {
      stall.report(*program, absl::StrCat(kSets,
                                          " other programs of several IPUs run on its "
                                          "device, and it waits for one to end"));
    }
  }
}

IpuLease::~IpuLease() {
  if (program_ == nullptr) return;
  Leases& leases = Leases::get();
  MutexLock lock(leases.mutex);
  Holder& holder = leases.sets[program_->ordinal()][static_cast<std::size_t>(set_)];
  if (--holder.times > 0) return;
  holder.program = nullptr;
  leases.changed.notify_all();
}

absl::Status run_on_ipus(int ordinal, int set, const std::vector<IpuWork>& works,
                         const std::function<void(const absl::Status&)>& on_error) {
  struct Group {
    explicit Group(std::size_t works) : left(works) {}

    Mutex mutex;
    CondVar done;
    std::size_t left IPUFEED_GUARDED_BY(mutex);
    absl::Status first IPUFEED_GUARDED_BY(mutex);
  } group(works.size());
  const auto run = [&group, &on_error](const IpuWork& work) {
    absl::Status status;
    {
      ContextScope scope(work.context);
      status = guarded("the work of an IPU", [&] { return work.run(); });
    }
    bool is_first = false;
    if (!status.ok()) {
      MutexLock lock(group.mutex);
      is_first = group.first.ok();
      if (is_first) group.first = status;
    }
    if (is_first) on_error(status);
    // Notified under the lock: the group is destroyed as soon as its waiter locks it.
    MutexLock lock(group.mutex);
    if (--group.left == 0) group.done.notify_one();
  };
  std::size_t given = 0;
  const absl::Status begun = guarded("the start of the IPUs' work", [&] {
    for (const IpuWork& work : works) {
      ipu(ordinal, work.ipu, set).run([&run, &work] { run(work); });
      ++given;
    }
  });
  if (!begun.ok()) {  // those that have begun end soon, and are waited for
    {
      MutexLock lock(group.mutex);
      group.left -= works.size() - given;
      group.first.Update(begun);
    }
    on_error(begun);
  }
  // The works see their program's end themselves, and nothing here may outlive them.
  MutexLock lock(group.mutex);
  while (group.left > 0) group.done.wait(group.mutex);
  return group.first;
}

}  // namespace ipufeed
