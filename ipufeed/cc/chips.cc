#include "chips.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ipu_device.h"
#include "pools.h"

namespace ipufeed {
namespace {

std::array<std::atomic<int>, kIpus> counts;  // 0 for the default

// Which program has the chips of a device, and how often it has taken them.
struct Holder {
  Program* program = nullptr;
  int times = 0;
};

struct Leases {
  std::mutex mutex;
  std::condition_variable given_back;
  std::map<int, Holder> holders;  // by ordinal

  static Leases& get() {
    static auto* leases = new Leases;
    return *leases;
  }
};

}  // namespace

// Two of each: one for what computes, and one for a program that waits in the call of
// its own pipeline, part of which runs on the same chip.
struct Chip::Threads {
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

Chip::Chip(int ordinal, int index)
    : ordinal_(ordinal),
      index_(index),
      threads_(new Threads(absl::StrCat("ipu", ordinal, "_chip", index))) {}

void Chip::run(std::function<void()> work) { threads_->main.Schedule(std::move(work)); }

const Eigen::ThreadPoolDevice* Chip::pool() const { return &threads_->eigen; }

Chip& chip(int ordinal, int index) {
  static auto* const mutex = new std::mutex;
  static auto* const chips = new std::map<std::pair<int, int>, std::unique_ptr<Chip>>;
  std::lock_guard<std::mutex> lock(*mutex);
  std::unique_ptr<Chip>& found = (*chips)[{ordinal, index}];
  if (found == nullptr) found = std::make_unique<Chip>(ordinal, index);
  return *found;
}

int chips_of(int ordinal) {
  if (ordinal < 0 || ordinal >= kIpus) return 1;
  const int count =
      counts[static_cast<std::size_t>(ordinal)].load(std::memory_order_relaxed);
  return count == 0 ? 1 : count;
}

void set_chips(int ordinal, int count) {
  if (ordinal < 0 || ordinal >= kIpus) return;
  counts[static_cast<std::size_t>(ordinal)].store(count, std::memory_order_relaxed);
}

absl::Status ChipLease::take(Program* program) {
  Leases& leases = Leases::get();
  std::unique_lock<std::mutex> lock(leases.mutex);
  Holder& holder = leases.holders[program->ordinal()];
  while (holder.program != nullptr && holder.program != program) {
    if (program->stopped()) {
      return absl::Status(
          program->stop_status().code(),
          absl::StrCat("The program was stopped while another one used IPU ",
                       program->ordinal(), ": ", program->stop_status().message()));
    }
    // No one who stops a program knows of this wait.
    leases.given_back.wait_for(lock, std::chrono::milliseconds(20));
  }
  holder.program = program;
  ++holder.times;
  program_ = program;
  return absl::OkStatus();
}

ChipLease::~ChipLease() {
  if (program_ == nullptr) return;
  Leases& leases = Leases::get();
  std::lock_guard<std::mutex> lock(leases.mutex);
  Holder& holder = leases.holders[program_->ordinal()];
  if (--holder.times > 0) return;
  holder.program = nullptr;
  leases.given_back.notify_all();
}

absl::Status run_on_chips(int ordinal, const std::vector<ChipWork>& works,
                          const std::function<void(const absl::Status&)>& on_error) {
  struct Group {
    std::mutex mutex;
    std::condition_variable done;
    std::size_t left;
    absl::Status first;
  } group;
  group.left = works.size();
  const auto run = [&group, &on_error](const ChipWork& work) {
    absl::Status status;
    {
      ContextScope scope(work.context);
      status = work.run();
    }
    bool is_first = false;
    if (!status.ok()) {
      std::lock_guard<std::mutex> lock(group.mutex);
      is_first = group.first.ok();
      if (is_first) group.first = status;
    }
    if (is_first) on_error(status);
    // Notified under the lock: the group is gone as soon as its waiter gets it.
    std::lock_guard<std::mutex> lock(group.mutex);
    if (--group.left == 0) group.done.notify_one();
  };
  for (const ChipWork& work : works) {
    chip(ordinal, work.chip).run([&run, &work] { run(work); });
  }
  // The works see their program's end themselves, and nothing here may outlive them.
  std::unique_lock<std::mutex> lock(group.mutex);
  group.done.wait(lock, [&group] { return group.left == 0; });
  return group.first;
}

}  // namespace ipufeed
