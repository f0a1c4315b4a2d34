// Ctrl-C while the main thread is inside TensorFlow.
#pragma once

namespace ipufeed {

// Hooks SIGINT in front of whoever handles it now, so that wait_for_interrupt() hears
// of it at once; Python's own handler runs only when its main thread gets back to
// Python. Does nothing where SIGINT is ignored or ends the process, and if the hook is
// in place. Any thread.
void hook_interrupt();

// Blocks until the next SIGINT after the hook. One thread.
void wait_for_interrupt();

}  // namespace ipufeed
