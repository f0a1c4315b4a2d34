// Thread pools of simulated hardware: they start on demand, and pass contexts on.
//
// Needs EIGEN_USE_THREADS, which setup.py defines for all.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "run/program.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/threadpool.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace ipufeed {

// A pool whose threads start with the first piece of work. TensorFlow asks each device
// for its pool when a session or a context begins, also those that will never run
// anything.
class LazyPool : public tensorflow::thread::ThreadPoolInterface {
 public:
  LazyPool(std::string name, int threads) : name_(std::move(name)), threads_(threads) {}

  void Schedule(std::function<void()> work) override {
    pool()->Schedule(std::move(work));
  }
  void ScheduleWithHint(std::function<void()> work, int start, int limit) override {
    pool()->ScheduleWithHint(std::move(work), start, limit);
  }
  void Cancel() override { pool()->Cancel(); }
  int NumThreads() const override { return threads_; }
  // No thread is one of the pool's before there is a pool.
  int CurrentThreadId() const override {
    auto* started = started_.load(std::memory_order_acquire);  // [1]
    return started == nullptr ? -1 : started->CurrentThreadId();
  }

 private:
  Eigen::ThreadPoolInterface* pool() {
    std::call_once(once_, [this] {
      pool_ = std::make_unique<tensorflow::thread::ThreadPool>(
          tensorflow::Env::Default(), tensorflow::ThreadOptions(), name_, threads_);
      // [1] pool() -> pool(), CurrentThreadId(): a thread that sees the pool sees it
      // whole.
      started_.store(pool_->AsEigenThreadPool(), std::memory_order_release);
    });
    return started_.load(std::memory_order_acquire);  // [1]
  }

  const std::string name_;
  const int threads_;
  std::once_flag once_;
  std::unique_ptr<tensorflow::thread::ThreadPool> pool_;
  std::atomic<Eigen::ThreadPoolInterface*> started_{nullptr};
};

// A pool that starts a thread when work comes while all of its threads are busy: for
// works that wait, perhaps for each other. Its end waits for all of them.
class GrowingPool : public tensorflow::thread::ThreadPoolInterface {
 public:
  GrowingPool(std::string name, std::size_t most)
      : name_(std::move(name)), most_(most) {}
  ~GrowingPool() override {
    std::vector<std::unique_ptr<tensorflow::Thread>> threads;
    {
      MutexLock lock(mutex_);
      ends_ = true;
      changed_.notify_all();
      threads.swap(threads_);
    }
    threads.clear();  // each waits for its thread, which needs the lock
  }

  void Schedule(std::function<void()> work) override {
    MutexLock lock(mutex_);
    works_.push_back(std::move(work));
    // A thread that was notified and does not run yet counts as idle, and its work is
    // in the queue.
    if (idle_ >= works_.size() || threads_.size() == most_) {
      changed_.notify_one();
      return;
    }
    threads_.emplace_back(tensorflow::Env::Default()->StartThread(
        tensorflow::ThreadOptions(), name_, [this] { run(); }));
  }
  void ScheduleWithHint(std::function<void()> work, int, int) override {
    Schedule(std::move(work));
  }
  void Cancel() override {}
  int NumThreads() const override { return static_cast<int>(most_); }
  int CurrentThreadId() const override { return -1; }

 private:
  void run() {
    for (;;) {
      std::function<void()> work;
      {
        MutexLock lock(mutex_);
        ++idle_;
        while (works_.empty() && !ends_) changed_.wait(mutex_);
        --idle_;
        if (works_.empty()) return;
        work = std::move(works_.front());
        works_.pop_front();
      }
      work();
    }
  }

  const std::string name_;
  const std::size_t most_;
  Mutex mutex_;
  CondVar changed_;  // work has come, or the end
  std::deque<std::function<void()>> works_ IPUFEED_GUARDED_BY(mutex_);
  std::size_t idle_ IPUFEED_GUARDED_BY(mutex_) = 0;
  bool ends_ IPUFEED_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<tensorflow::Thread>> threads_ IPUFEED_GUARDED_BY(mutex_);
};

// Hands the thread's context on to the threads that work for it. Without this most
// queue calls of a compiled loop could not find their program.
class PropagatingPool : public Eigen::ThreadPoolInterface {
 public:
  explicit PropagatingPool(Eigen::ThreadPoolInterface* pool) : pool_(pool) {}

  void Schedule(std::function<void()> work) override {
    pool_->Schedule(with_context(std::move(work)));
  }
  void ScheduleWithHint(std::function<void()> work, int start, int limit) override {
    pool_->ScheduleWithHint(with_context(std::move(work)), start, limit);
  }
  void Cancel() override { pool_->Cancel(); }
  int NumThreads() const override { return pool_->NumThreads(); }
  int CurrentThreadId() const override { return pool_->CurrentThreadId(); }

 private:
  static std::function<void()> with_context(std::function<void()> work) {
    return [context = current_context(), work = std::move(work)] {
      ContextScope scope(context);
      work();
    };
  }

  Eigen::ThreadPoolInterface* const pool_;
};

}  // namespace ipufeed
