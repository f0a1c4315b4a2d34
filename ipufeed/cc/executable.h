// Compiles programs for the simulated IPUs, keeps them, and runs them.
//
//   XlaLaunch -> TensorFlow lowers the function -> Compiler::BuildExecutable
//                   Python: the key of what was lowered      kKey
//                   this process has it?                     kShared
//                   Python: the file, its lock, its checks   kFind -> kLoaded
//                   XLA compiles                             kCompiled
//   each run     -> IpuExecutable: attach, load onto the device, run
//
// TensorFlow keeps a program for each function and signature of a device. This is below
// that: what is the same program under another name, on another IPU or in another
// session is compiled once.
#pragma once

#include <cstdint>

namespace tensorflow {
class Device;
}

namespace ipufeed {

// What C++ asks and tells Python; ipufeed/executable/native.py has the same numbers.
enum ProgramEvent : int {
  kKey = 0,         // what is its key? An error refuses the program
  kShared = 1,      // it was in this process's memory
  kFind = 2,        // is there a file? If not, it will be compiled: an error refuses
  kLoaded = 3,      // the file has become a program
  kUnusable = 4,    // the file could not: it will be compiled
  kCompiled = 5,    // it has been compiled. An error refuses it all the same
  kFailed = 6,      // it could not be
  kOntoDevice = 7,  // it is on a device that held another one
};

// One call of Python's function, and what stays the same over the calls for a program.
// Pointers are valid during a call.
struct ProgramExchange {
  std::int64_t id;       // the same over the calls for one program
  std::int32_t ordinal;  // of the IPU
  const char* name;      // of what was lowered
  const char* function;  // its FunctionDef, serialised
  std::int64_t function_size;
  const char* hlo;  // its HloModuleProto, serialised deterministically
  std::int64_t hlo_size;
  const std::int32_t* arguments;  // of the function, one for each parameter
  std::int64_t parameters;
  std::int32_t shards;     // IPUs that one copy of it is spread over
  std::uint64_t key;       // set by kKey
  std::uint64_t previous;  // kOntoDevice: of what the device held; 0 for nothing
  // What XLA can load again: of kCompiled; set by kFind, where it stays Python's.
  const char* executable;
  std::int64_t executable_size;
  std::int64_t duration_ns;  // of what the event reports
  std::int64_t rss_bytes;    // by how much the process grew meanwhile
  // Out: of an error. In: of kUnusable and kFailed.
  char* message;
  std::int64_t message_size;
};

// Returns 0 or the code of a status whose text it has put into `message`.
using OnProgram = int (*)(int event, ProgramExchange* exchange);
void set_on_program(OnProgram ask);

// What becomes of programs that are started.
enum class RunMode : int {
  kRun = 0,
  kZeros = 1,   // results are zeros, variables and feeds stay: PRE_COMPILE
  kRefuse = 2,  // an error: NEVER
};
void set_run_mode(RunMode mode);
RunMode run_mode();

// Devices hold nothing any more: the configuration has changed.
void forget_loaded();

// An op runs on the device by itself, and so is a program: the hash of what it is.
void note_single_op(int ordinal, std::uint64_t key, const char* name);

// Whether Python is told of them, too, one by one; off by default.
void set_log_ops(bool log);

// How many such programs were loaded since the last call, and how many in place of
// another: those that Python has not been told of.
void take_op_loads(std::int64_t* loads, std::int64_t* switches);

// Puts our compiler into a device, for all that is compiled on it from now on.
void install_compiler(tensorflow::Device* device);

}  // namespace ipufeed
