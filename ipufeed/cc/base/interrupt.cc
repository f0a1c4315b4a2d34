#include "base/interrupt.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "core/clock.h"
#include "core/mutex.h"

namespace ipufeed {
namespace {

// A handler may call the one before it, which may be our hook under an earlier handler.
// So each handler that the hook has been put in front of has a hook of its own: calls
// from handler to handler then terminate, as they would without the hooks.
constexpr int kHooks = 8;  // of one signal: different handlers, in the process's life

struct Hooked {
  const int number;
  struct sigaction next[kHooks];  // by hook; written before the hook is installed
  int hooks = 0;                  // guarded by hook_interrupt's mutex
  std::atomic<std::int64_t> came_ns{0};  // 0 for not yet
};

Hooked hooked[] = {{SIGINT, {}}, {SIGTERM, {}}};
static_assert(std::atomic<std::int64_t>::is_always_lock_free,
              "it is used in a signal handler");

// In the hook only what may be called in a signal handler: sem_post and clock_gettime
// may.
sem_t arrived;

template <int hook>
void on_signal(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  for (Hooked& signal : hooked) {
    if (signal.number != number) continue;
    signal.came_ns.store(now_ns(), std::memory_order_relaxed);
    sem_post(&arrived);
    errno = saved;
    const struct sigaction& next = signal.next[hook];
    if ((next.sa_flags & SA_SIGINFO) != 0) {
      next.sa_sigaction(number, info, context);
    } else {
      next.sa_handler(number);
    }
  }
}

using Handler = void (*)(int, siginfo_t*, void*);

template <int... hook>
constexpr std::array<Handler, kHooks> make_hooks(
    std::integer_sequence<int, hook...> /*numbers*/) {
  return {on_signal<hook>...};
}
constexpr auto kHookOf = make_hooks(std::make_integer_sequence<int, kHooks>());

// sa_handler and sa_sigaction share their memory.
bool same_handler(const struct sigaction& a, const struct sigaction& b) {
  return ((a.sa_flags ^ b.sa_flags) & SA_SIGINFO) == 0 && a.sa_handler == b.sa_handler;
}

void hook(Hooked* signal) {
  struct sigaction now;
  if (sigaction(signal->number, nullptr, &now) != 0) return;
  const bool extended = (now.sa_flags & SA_SIGINFO) != 0;
  if (extended &&
      std::find(kHookOf.begin(), kHookOf.end(), now.sa_sigaction) != kHookOf.end())
    return;
  if (!extended && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) return;
  int own = 0;
  while (own < signal->hooks && !same_handler(signal->next[own], now)) ++own;
  if (own == kHooks) return;  // this handler runs without a hook
  if (own == signal->hooks) {
    signal->next[own] = now;
    ++signal->hooks;
  }
  struct sigaction ours = now;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = kHookOf[static_cast<std::size_t>(own)];
  sigaction(signal->number, &ours, nullptr);
}

void init_once() {
  static std::once_flag once;
  std::call_once(once, [] { sem_init(&arrived, 0, 0); });
}

}  // namespace

void hook_interrupt() {
  init_once();
  static Mutex mutex;  // one thread at a time installs hooks
  MutexLock lock(mutex);
  for (Hooked& signal : hooked) hook(&signal);
}

Interrupt wait_for_interrupt() {
  init_once();
  for (;;) {
    while (sem_wait(&arrived) != 0 && errno == EINTR) {
    }
    for (Hooked& signal : hooked) {
      const std::int64_t at_ns = signal.came_ns.exchange(0, std::memory_order_relaxed);
      if (at_ns != 0) return {signal.number, at_ns};
    }
  }
}

}  // namespace ipufeed
