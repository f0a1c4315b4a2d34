#include "replicas/collective_thread.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/guard.h"
#include "core/clock.h"
#include "core/wait.h"

namespace ipufeed {
namespace {

constexpr std::size_t kErrorSize = 4096;

struct IdleThreads {
  Mutex mutex;
  std::vector<CollectiveThread*> threads IPUFEED_GUARDED_BY(mutex);
  std::size_t made IPUFEED_GUARDED_BY(mutex) = 0;
};

IdleThreads& idle() {
  static IdleThreads* const threads = new IdleThreads;  // used until the process ends
  return *threads;
}

}  // namespace

CollectiveThread* CollectiveThread::take() {
  {
    IdleThreads& found = idle();
    MutexLock lock(found.mutex);
    if (!found.threads.empty()) {
      CollectiveThread* const last = found.threads.back();
      found.threads.pop_back();
      return last;
    }
  }
  {
    IdleThreads& found = idle();
    MutexLock lock(found.mutex);
    // There is room for all from here on: a thread that has no memory to give itself
    // back would end the process.
    found.threads.reserve(++found.made);
  }
  auto* const made = new CollectiveThread;
  try {
    std::thread([made] { made->run(); }).detach();
  } catch (const std::system_error&) {
    delete made;
    return nullptr;
  }
  return made;
}

void CollectiveThread::give_back() {
  wanted_.store(0, std::memory_order_relaxed);
  {
    MutexLock lock(mutex_);
    listener_ = nullptr;
    if (state_ == State::kCalled) {
      given_back_ = true;
      return;
    }
    state_ = State::kIdle;
  }
  IdleThreads& found = idle();
  MutexLock lock(found.mutex);
  found.threads.push_back(this);
}

std::byte* CollectiveThread::reserve(std::size_t bytes) {
  if (bytes > data_.room() &&
      !data_.grow(std::max({bytes, 2 * data_.room(), std::size_t{4096}}), 0)) {
    return nullptr;
  }
  return data_.data();
}

void CollectiveThread::start(CollectiveCall call, Wakeable* listener) {
  call_ = std::move(call);
  wanted_.store(1, std::memory_order_relaxed);
  MutexLock lock(mutex_);
  state_ = State::kCalled;
  woken_ = false;
  listener_ = listener;
  changed_.notify_all();
}

bool CollectiveThread::wait(const Program& program, std::int64_t until_ns) {
  MutexLock lock(mutex_);
  while (state_ == State::kCalled && !woken_ && !program.stopped()) {
    if (until_ns == kNoDeadline) {
      changed_.wait(mutex_);
      continue;
    }
    const std::int64_t left_ns = until_ns - now_ns();
    if (left_ns <= 0) break;
    changed_.wait_for_ns(mutex_, left_ns);
  }
  woken_ = false;
  return state_ == State::kReturned;
}

bool CollectiveThread::has_returned() {
  MutexLock lock(mutex_);
  return state_ == State::kReturned;
}

absl::Status CollectiveThread::status() {
  MutexLock lock(mutex_);
  return status_;
}

void CollectiveThread::wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void CollectiveThread::run() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (state_ != State::kCalled) changed_.wait(mutex_);
    }
    absl::Status status =
        guarded("a collective between processes", [this] { return answer(); });
    bool given_back = false;
    {
      MutexLock lock(mutex_);
      status_ = std::move(status);
      given_back = std::exchange(given_back_, false);
      state_ = given_back ? State::kIdle : State::kReturned;
      if (listener_ != nullptr) listener_->wake();
      changed_.notify_all();
    }
    if (!given_back) continue;
    IdleThreads& found = idle();
    MutexLock lock(found.mutex);
    found.threads.push_back(this);
  }
}

absl::Status CollectiveThread::answer() {
  std::string message(kErrorSize, '\0');
  const int code = call_.function(
      call_.stream, call_.checks ? 1 : 0, call_.reduction, call_.mean ? 1 : 0,
      call_.dtype, data_.data(), &reduced_, call_.count,
      reinterpret_cast<const int*>(&wanted_), call_.run, call_.number,
      call_.what.c_str(), message.data(), static_cast<std::int64_t>(message.size()));
  if (code == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), message.c_str());
}

}  // namespace ipufeed
