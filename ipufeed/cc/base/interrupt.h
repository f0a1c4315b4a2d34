// Ctrl-C and SIGTERM while the main thread is inside TensorFlow.
#pragma once

#include <cstdint>

namespace ipufeed {

// Hooks SIGINT and SIGTERM in front of their current handlers, so that
// wait_for_interrupt() returns with them at once; Python's own handlers run only when
// its main thread gets back to Python. Does nothing where a signal is ignored or ends
// the process, and if the hook is in place. A handler may call the handler before it,
// which may be the hook. Any thread.
void hook_interrupt();

struct Interrupt {
  int signal = 0;
  std::int64_t at_ns = 0;  // when it came, on the monotonic clock
};

// Blocks until the next such signal after the hook. One thread.
Interrupt wait_for_interrupt();

}  // namespace ipufeed
