#include "interrupt.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>

#include <atomic>
#include <mutex>

namespace ipufeed {
namespace {

struct Hooked {
  const int number;
  struct sigaction next;
  std::atomic<bool> came{false};
};

Hooked hooked[] = {{SIGINT, {}}, {SIGTERM, {}}};
static_assert(std::atomic<bool>::is_always_lock_free, "it is used in a signal handler");

// In the hook only what may be called in a signal handler: sem_post may.
sem_t arrived;

void on_signal(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  for (Hooked& signal : hooked) {
    if (signal.number != number) continue;
    signal.came.store(true, std::memory_order_relaxed);
    sem_post(&arrived);
    errno = saved;
    if ((signal.next.sa_flags & SA_SIGINFO) != 0) {
      signal.next.sa_sigaction(number, info, context);
    } else {
      signal.next.sa_handler(number);
    }
  }
}

void hook(Hooked* signal) {
  struct sigaction now;
  if (sigaction(signal->number, nullptr, &now) != 0) return;
  const bool extended = (now.sa_flags & SA_SIGINFO) != 0;
  if (extended && now.sa_sigaction == on_signal) return;
  if (!extended && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) return;
  signal->next = now;
  struct sigaction ours = now;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = on_signal;
  sigaction(signal->number, &ours, nullptr);
}

void init_once() {
  static std::once_flag once;
  std::call_once(once, [] { sem_init(&arrived, 0, 0); });
}

}  // namespace

void hook_interrupt() {
  init_once();
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  for (Hooked& signal : hooked) hook(&signal);
}

int wait_for_interrupt() {
  init_once();
  for (;;) {
    while (sem_wait(&arrived) != 0 && errno == EINTR) {
    }
    for (Hooked& signal : hooked) {
      if (signal.came.exchange(false, std::memory_order_relaxed)) return signal.number;
    }
  }
}

}  // namespace ipufeed
