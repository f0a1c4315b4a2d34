#include "device/ipu_threads.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "core/mutex.h"
#include "device/pools.h"

namespace ipufeed {
namespace {

// Which program has the IPUs of a device, and how often it has taken them.
struct Holder {
  Program* program = nullptr;
  int times = 0;
};

struct Leases {
  Mutex mutex;
  CondVar given_back;
  std::map<int, Holder> holders IPUFEED_GUARDED_BY(mutex);  // by ordinal

  static Leases& get() {
    static auto* leases = new Leases;
    return *leases;
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

Ipu::Ipu(int ordinal, int index)
    : ordinal_(ordinal),
      index_(index),
      threads_(new Threads(absl::StrCat("ipu", ordinal, "_", index))) {}

void Ipu::run(std::function<void()> work) { threads_->main.Schedule(std::move(work)); }

const Eigen::ThreadPoolDevice* Ipu::pool() const { return &threads_->eigen; }

Ipu& ipu(int ordinal, int index) {
  static auto* const mutex = new Mutex;
  static auto* const ipus = new std::map<std::pair<int, int>, std::unique_ptr<Ipu>>;
  MutexLock lock(*mutex);
  std::unique_ptr<Ipu>& found = (*ipus)[{ordinal, index}];
  if (found == nullptr) found = std::make_unique<Ipu>(ordinal, index);
  return *found;
}

absl::Status IpuLease::take(Program* program) {
  Leases& leases = Leases::get();
  MutexLock lock(leases.mutex);
  Holder& holder = leases.holders[program->ordinal()];
  while (holder.program != nullptr && holder.program != program) {
    if (program->stopped()) {
      return absl::Status(
          program->stop_status().code(),
          absl::StrCat("The program was stopped while another one used IPU ",
                       program->ordinal(), ": ", program->stop_status().message()));
    }
    // A thread that stops a program cannot see this wait.
    leases.given_back.wait_for_ns(leases.mutex, 20'000'000);
  }
  holder.program = program;
  ++holder.times;
  program_ = program;
  return absl::OkStatus();
}

IpuLease::~IpuLease() {
  if (program_ == nullptr) return;
  Leases& leases = Leases::get();
  MutexLock lock(leases.mutex);
  Holder& holder = leases.holders[program_->ordinal()];
  if (--holder.times > 0) return;
  holder.program = nullptr;
  leases.given_back.notify_all();
}

absl::Status run_on_ipus(int ordinal, const std::vector<IpuWork>& works,
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
      ipu(ordinal, work.ipu).run([&run, &work] { run(work); });
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
