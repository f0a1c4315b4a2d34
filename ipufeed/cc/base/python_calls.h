// Calls of Python that no handler of a signal may end.
#pragma once

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <system_error>
#include <thread>

namespace ipufeed {

// Whether this thread holds Python's lock, which another one would wait for.
inline bool holds_python() {
  using Check = int (*)();
  static const auto check =
      reinterpret_cast<Check>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  return check != nullptr && check() != 0;
}

// Calls `work` on a thread that is not the process's main one, and waits for it.
//
// Python runs the handlers of signals on the main thread, at the next step of whatever
// is called there: Ctrl-C while a program was compiled would raise in what we ask of
// Python, before it could catch anything. The error would be lost, and the work half
// done. Elsewhere no handler runs; the main thread raises when it is back in Python.
template <class Work>
void off_main(Work&& work) {
  if (syscall(SYS_gettid) != getpid() || holds_python()) {
    work();
    return;
  }
  try {
    std::thread(std::ref(work)).join();
  } catch (const std::system_error&) {  // no thread to be had
    work();
  }
}

}  // namespace ipufeed
