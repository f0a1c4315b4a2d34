// What a step's cancellation promises; built and run by test_cancellation.py.
#include "base/cancellation.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "absl/synchronization/notification.h"

namespace {

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

void calls_back_and_forgets() {
  tensorflow::CancellationManager manager;
  int called = 0;
  ipufeed::Cancellation kept;
  check(kept.watch(&manager, [&called] { ++called; }), "registers");
  {
    ipufeed::Cancellation gone;
    check(gone.watch(&manager, [&called] { called += 10; }), "registers a second one");
  }
  manager.StartCancel();
  check(called == 1, "calls what is registered, and only that");
  ipufeed::Cancellation late;
  check(!late.watch(&manager, [&called] { ++called; }), "is cancelled afterwards");
  check(called == 1, "does not call what is not registered");
  check(late.watch(nullptr, [] {}), "without a manager nothing is cancelled");
}

// A callback is under way: TensorFlow registers no more, and says "not cancelled".
void is_cancelled_while_callbacks_run() {
  tensorflow::CancellationManager manager;
  absl::Notification under_way;
  absl::Notification go_on;
  ipufeed::Cancellation slow;
  check(slow.watch(&manager,
                   [&] {
                     under_way.Notify();
                     go_on.WaitForNotification();
                   }),
        "registers");
  std::thread canceller([&manager] { manager.StartCancel(); });
  under_way.WaitForNotification();
  check(!manager.IsCancelled(), "TensorFlow's flag is late");
  ipufeed::Cancellation late;
  check(!late.watch(&manager, [] {}), "a cancellation under way is one");
  late.forget();
  go_on.Notify();
  canceller.join();
}

}  // namespace

int main() {
  calls_back_and_forgets();
  is_cancelled_while_callbacks_run();
  return 0;
}
