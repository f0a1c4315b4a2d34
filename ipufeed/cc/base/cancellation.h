// A step's cancellation: Session.close, a time-out, another op's error.
#pragma once

#include <functional>
#include <utility>

#include "tensorflow/core/framework/cancellation.h"

namespace ipufeed {

// Calls a function when the step is cancelled, for as long as this lives.
//
// While TensorFlow runs the callbacks of a cancellation it refuses to register another
// one, and IsCancelled() is still false then. So a registration that is refused means
// "cancelled", and nothing else does.
class Cancellation {
 public:
  Cancellation() = default;
  ~Cancellation() { forget(); }
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // Once. False if the step has been cancelled, or is being: `on_cancel` is then not
  // called, and the caller must act. manager: null for a step that is never
  // cancelled.
  [[nodiscard]] bool watch(tensorflow::CancellationManager* manager,
                           std::function<void()> on_cancel) {
    if (manager == nullptr) return true;
    const auto token = manager->get_cancellation_token();
    if (!manager->RegisterCallback(token, std::move(on_cancel))) return false;
    manager_ = manager;
    token_ = token;
    return true;
  }

  // Waits for the callback, if it is running: without a lock that it takes.
  void forget() {
    if (manager_ != nullptr) manager_->DeregisterCallback(token_);
    manager_ = nullptr;
  }

 private:
  tensorflow::CancellationManager* manager_ = nullptr;  // null: not registered
  tensorflow::CancellationToken token_ = tensorflow::CancellationManager::kInvalidToken;
};

// Calls a function when the manager is cancelled or destroyed; it cannot be
// unregistered. False, as above, if it has been cancelled.
[[nodiscard]] inline bool watch_to_the_end(tensorflow::CancellationManager* manager,
                                           std::function<void()> at_end) {
  return manager->RegisterCallback(manager->get_cancellation_token(),
                                   std::move(at_end));
}

}  // namespace ipufeed
