// A mutex and a condition variable whose use clang checks: -Wthread-safety, run by
// `nox -s analyze`.
//
// An access without its mutex is an error, and so is a call without it:
//
//   int count_ IPUFEED_GUARDED_BY(mutex_) = 0;
//   void add() IPUFEED_REQUIRES(mutex_);
//
// They are those of the standard library; for other compilers the macros are
// empty. Conditions are loops around wait(): the analysis does not check lambdas.
//
// Source: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

#include "core/cpu_relax.h"

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
#define IPUFEED_ACQUIRE_SHARED(...) \
  IPUFEED_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define IPUFEED_RELEASE_SHARED(...) \
  IPUFEED_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
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

  // For threads that contend at the same moment, as at a barrier: each holds the mutex
  // for less time than the kernel needs to wake one that sleeps.
  void lock_spinning() IPUFEED_ACQUIRE() {
    for (int i = 0; i < kLockSpins; ++i) {
      if (mutex_.try_lock()) return;
      cpu_relax();
    }
    mutex_.lock();
  }

 private:
  static constexpr int kLockSpins = 64;  // some 2 us

  friend class CondVar;
  std::mutex mutex_;
};

// Many readers or one writer.
class IPUFEED_ATTRIBUTE(capability("mutex")) SharedMutex {
 public:
  SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() IPUFEED_ACQUIRE() { mutex_.lock(); }
  void unlock() IPUFEED_RELEASE() { mutex_.unlock(); }
  void lock_shared() IPUFEED_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() IPUFEED_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

// Holds the mutex for its lifetime.
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

// Holds a mutex that its caller has locked, and unlocks it at its end.
class IPUFEED_ATTRIBUTE(scoped_lockable) MutexHeld {
 public:
  explicit MutexHeld(Mutex& mutex) IPUFEED_REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexHeld() IPUFEED_RELEASE() { mutex_.unlock(); }
  MutexHeld(const MutexHeld&) = delete;
  MutexHeld& operator=(const MutexHeld&) = delete;

 private:
  Mutex& mutex_;
};

// The writer's lock of a SharedMutex, for its lifetime.
class IPUFEED_ATTRIBUTE(scoped_lockable) WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) IPUFEED_ACQUIRE(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  ~WriterLock() IPUFEED_RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// A reader's lock of a SharedMutex, for its lifetime.
class IPUFEED_ATTRIBUTE(scoped_lockable) ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) IPUFEED_ACQUIRE_SHARED(mutex)
      : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReaderLock() IPUFEED_RELEASE() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// Unlocks the mutex for its lifetime; the caller holds it before and after.
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
  // Unlocks the mutex while it sleeps. May return without a notification.
  void wait(Mutex& mutex) IPUFEED_REQUIRES(mutex) {
    Held held(mutex.mutex_);
    condition_.wait(held.lock);
  }

  // As wait(), for at most `ns` nanoseconds.
  void wait_for_ns(Mutex& mutex, std::int64_t ns) IPUFEED_REQUIRES(mutex) {
    Held held(mutex.mutex_);
    condition_.wait_for(held.lock, std::chrono::nanoseconds(ns));
  }

  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  // The caller's lock, as the standard library's type.
  struct Held {
    explicit Held(std::mutex& mutex) : lock(mutex, std::adopt_lock) {}
    ~Held() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace ipufeed
