#include "interrupt.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>

#include <mutex>

namespace ipufeed {
namespace {

// In the hook only what may be called in a signal handler: sem_post may.
sem_t pressed;
struct sigaction next;

void on_interrupt(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  sem_post(&pressed);
  errno = saved;
  if ((next.sa_flags & SA_SIGINFO) != 0) {
    next.sa_sigaction(number, info, context);
  } else {
    next.sa_handler(number);
  }
}

void init_once() {
  static std::once_flag once;
  std::call_once(once, [] { sem_init(&pressed, 0, 0); });
}

}  // namespace

void hook_interrupt() {
  init_once();
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  struct sigaction now;
  if (sigaction(SIGINT, nullptr, &now) != 0) return;
  const bool extended = (now.sa_flags & SA_SIGINFO) != 0;
  if (extended && now.sa_sigaction == on_interrupt) return;
  if (!extended && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) return;
  next = now;
  struct sigaction ours = now;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = on_interrupt;
  sigaction(SIGINT, &ours, nullptr);
}

void wait_for_interrupt() {
  init_once();
  while (sem_wait(&pressed) != 0 && errno == EINTR) {
  }
}

}  // namespace ipufeed
