// Calls Python such that signal handlers cannot interrupt it.
#pragma once

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <system_error>
#include <thread>

namespace ipufeed {

// Whether this thread holds Python's lock, for which another one would wait.
inline bool holds_python() {
  using Check = int (*)();
  static const auto check =
      reinterpret_cast<Check>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  return check != nullptr && check() != 0;
}

// Calls `work` on a thread that is not the process's main one, and waits for it.
//
// Python runs the handlers of signals on the main thread, at the next step of whatever
// is called there: Ctrl-C during a compilation would raise in our call of Python,
// before it could catch it. The error would be lost, and the work incomplete. On
// another thread no handler runs; the main thread raises when it returns to Python.
template <class Work>
void off_main(Work&& work) {
  if (syscall(SYS_gettid) != getpid() || holds_python()) {
    work();
    return;
  }
  try {
    std::thread(std::ref(work)).join();
  } catch (const std::system_error&) {  // no thread can be started
    work();
  }
}

}  // namespace ipufeed
