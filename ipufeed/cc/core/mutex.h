// A mutex and a condition variable whose use clang checks: -Wthread-safety, run by
// `nox -s analyze`.
//
//   Mutex mutex_;
//   int count_ IPUFEED_GUARDED_BY(mutex_) = 0;   an access without the mutex is an
//   error void add() IPUFEED_REQUIRES(mutex_);         so is a call without it
//
// They are std::mutex and std::condition_variable; for other compilers the macros are
// empty. Conditions are loops around wait(): the analysis does not look into lambdas.
//
// Source: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#ifdef __clang__
#define IPUFEED_ATTRIBUTE(...) __attribute__((__VA_ARGS__))
#else
#define IPUFEED_ATTRIBUTE(...)
#endif
#define IPUFEED_GUARDED_BY(mutex) IPUFEED_ATTRIBUTE(guarded_by(mutex))
#define IPUFEED_REQUIRES(...) IPUFEED_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define IPUFEED_EXCLUDES(...) IPUFEED_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define IPUFEED_ACQUIRE(...) IPUFEED_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define IPUFEED_RELEASE(...) IPUFEED_ATTRIBUTE(release_capability(__VA_ARGS__))
#define IPUFEED_TRY_ACQUIRE(...) IPUFEED_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))

namespace ipufeed {

class IPUFEED_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() IPUFEED_ACQUIRE() { mutex_.lock(); }
  bool try_lock() IPUFEED_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() IPUFEED_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Has the mutex for its life.
class IPUFEED_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) IPUFEED_ACQUIRE(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() IPUFEED_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Gives the mutex back for its life; the caller has it before and after.
class IPUFEED_ATTRIBUTE(scoped_lockable) MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) IPUFEED_RELEASE(mutex) : mutex_(mutex) {
    mutex_.unlock();
  }
  ~MutexUnlock() IPUFEED_RELEASE() { mutex_.lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Gives the mutex back while it sleeps. May return without a notification.
  void wait(Mutex& mutex) IPUFEED_REQUIRES(mutex) {
    Held held(mutex.mutex_);
    condition_.wait(held.lock);
  }

  // Likewise, for that long at most.
  void wait_for_ns(Mutex& mutex, std::int64_t ns) IPUFEED_REQUIRES(mutex) {
    Held held(mutex.mutex_);
    condition_.wait_for(held.lock, std::chrono::nanoseconds(ns));
  }

  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  // The caller's lock, as the standard library wants it.
  struct Held {
    explicit Held(std::mutex& mutex) : lock(mutex, std::adopt_lock) {}
    ~Held() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace ipufeed
