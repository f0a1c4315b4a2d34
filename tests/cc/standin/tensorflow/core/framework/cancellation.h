// Callbacks that a cancellation calls, once. As tsl::CancellationManager: they are
// called without the lock; none can be registered once a cancellation has begun;
// deregistering one waits while a cancellation is calling them, so that it returns
// false only when the callback has been called.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "absl/status/status.h"

namespace tensorflow {

using CancellationToken = std::int64_t;
using CancelCallback = std::function<void()>;

class CancellationManager {
 public:
  static constexpr CancellationToken kInvalidToken = -1;

  CancellationManager() = default;
  CancellationManager(const CancellationManager&) = delete;
  CancellationManager& operator=(const CancellationManager&) = delete;
  ~CancellationManager() { StartCancel(); }

  void StartCancel() {
    std::map<CancellationToken, CancelCallback> callbacks;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (is_cancelling_ || is_cancelled_.load(std::memory_order_relaxed)) return;
      is_cancelling_ = true;
      callbacks.swap(callbacks_);
    }
    for (const auto& [token, callback] : callbacks) callback();
    std::lock_guard<std::mutex> lock(mutex_);
    is_cancelling_ = false;
    is_cancelled_.store(true, std::memory_order_release);
    called_.notify_all();
  }

  bool IsCancelled() const { return is_cancelled_.load(std::memory_order_acquire); }

  bool IsCancelling() {
    std::lock_guard<std::mutex> lock(mutex_);
    return is_cancelling_;
  }

  CancellationToken get_cancellation_token() { return next_token_.fetch_add(1); }

  bool RegisterCallback(CancellationToken token, CancelCallback callback) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_cancelling_ || is_cancelled_.load(std::memory_order_relaxed)) return false;
    callbacks_[token] = std::move(callback);
    return true;
  }

  bool DeregisterCallback(CancellationToken token) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (is_cancelled_.load(std::memory_order_relaxed)) return false;
    if (is_cancelling_) {
      called_.wait(lock, [this] { return !is_cancelling_; });
      return false;
    }
    return callbacks_.erase(token) > 0;
  }

  bool TryDeregisterCallback(CancellationToken token) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_cancelling_ || is_cancelled_.load(std::memory_order_relaxed)) return false;
    return callbacks_.erase(token) > 0;
  }

 private:
  std::mutex mutex_;  // guards is_cancelling_, callbacks_, stores of is_cancelled_
  std::condition_variable called_;
  bool is_cancelling_ = false;
  std::atomic<bool> is_cancelled_{false};
  std::atomic<CancellationToken> next_token_{0};
  std::map<CancellationToken, CancelCallback> callbacks_;
};

}  // namespace tensorflow
