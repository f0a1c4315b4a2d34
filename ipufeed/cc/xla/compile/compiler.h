// Compiles programs for the simulated IPUs, and keeps them.
//
//   XlaLaunch -> TensorFlow lowers the function -> Compiler::BuildExecutable
//                   Python: the key of what was lowered      kKey
//                   this process has it?                     kShared
//                   Python: the file, its lock, its checks   kFind -> kLoaded
//                   XLA compiles                             kCompiled
//   each run     -> ipu_executable.h
//
// TensorFlow keeps a program for each function and signature of a device. This is below
// that: what is the same program under another name, on another IPU or in another
// session is compiled once. The devices get it by set_compiler() (ipu_device.h).
#pragma once

#include <cstdint>

namespace ipufeed {

// The number of programs in the process's table. Any thread.
std::int64_t known_programs();

// Clears the programs in memory. Running ones continue. Any thread.
void forget_programs();

}  // namespace ipufeed
