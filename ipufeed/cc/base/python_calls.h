// Calls Python such that signal handlers cannot interrupt it.
#pragma once

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <system_error>
#include <thread>

namespace ipufeed {

// The address of a function of Python's, null in a process without Python.
template <class Function>
Function python_function(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// Whether this thread holds Python's lock, for which another one would wait.
inline bool holds_python() {
  static const auto check = python_function<int (*)()>("PyGILState_Check");
  return check != nullptr && check() != 0;
}

// Whether Python is taken down, and ends each thread that asks for its lock.
inline bool python_is_ending() {
  static const auto check = python_function<int (*)()>("Py_IsInitialized");
  return check != nullptr && check() == 0;
}

// Keeps the exception that Python is raising on this thread while Python is called: a
// destructor may run as its stack is unwound. The thread may have Python's lock or not.
class KeptError {
 public:
  KeptError() {
    static const auto own =
        python_function<void* (*)()>("PyGILState_GetThisThreadState");
    static const auto fetch =
        python_function<void (*)(void**, void**, void**)>("PyErr_Fetch");
    if (own == nullptr || own() == nullptr || python_is_ending()) return;
    locked([this] { fetch(&type_, &value_, &trace_); });
  }
  ~KeptError() {
    static const auto restore =
        python_function<void (*)(void*, void*, void*)>("PyErr_Restore");
    if (type_ != nullptr) locked([this] { restore(type_, value_, trace_); });
  }
  KeptError(const KeptError&) = delete;
  KeptError& operator=(const KeptError&) = delete;

 private:
  template <class Work>
  static void locked(Work&& work) {
    static const auto ensure = python_function<int (*)()>("PyGILState_Ensure");
    static const auto release = python_function<void (*)(int)>("PyGILState_Release");
    const int state = ensure();
    work();
    release(state);
  }

  void* type_ = nullptr;
  void* value_ = nullptr;
  void* trace_ = nullptr;
};

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
