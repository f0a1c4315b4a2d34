// The simulated IPU, `/device:IPU:n`: a TensorFlow device of its own.
#pragma once

#include "absl/status/status.h"
#include "core/ipus.h"

namespace tensorflow {
class Device;
}

namespace ipufeed {

// Asked before an IPU runs anything for the first time: attaches to it, or writes why
// not into message (of `size` bytes, with the zero at its end) and returns an absl
// status code.
using OnFirstUse = int (*)(int ordinal, char* message, int size);

// Asks if that has not been done. Programs do so when they start: their compilation
// needs no device. Any thread.
absl::Status use_device(int ordinal);

// Puts a new compiler into a device, for all that is compiled on it from now on; the
// one that it had is destroyed, with its programs. No program may run on the device
// during the call.
using InstallCompiler = void (*)(tensorflow::Device* device);

// For the compiler, which is above the devices, while the library is loaded: what a
// device calls before it compiles for the first time. Returns true.
bool set_compiler(InstallCompiler install);

// null: not called, the default. Any thread.
void set_on_first_use(OnFirstUse on_first_use);

// Whether each program logs the cycles that it took: a line on stderr, from
// TensorFlow's logger, with the time at the hardware's clock. Off by default. Any
// thread.
void set_log_cycle_count(bool log);

// What was answered so far is asked again.
void forget_first_uses();

// Each device gets a new compiler before it next runs a program, once those that run on
// it have ended. Any thread.
void forget_compilers();

}  // namespace ipufeed
