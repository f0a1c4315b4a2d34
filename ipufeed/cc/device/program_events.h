// Programs' events for Python, and which program each device holds.
//
//   Compiler, IpuExecutable, single ops --> notify(), report(), load_onto()
//                                              |
//                                              v  off the main thread: python_calls.h
//                                        Python's function: set_on_program()
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/trace.h"

namespace ipufeed {

// The questions to Python and the events for it; ipufeed/executable/program/events.py
// has the same numbers.
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
struct ProgramCall {
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
  std::int64_t rss_bytes;    // growth of the process in that time
  // Out: of an error. In: of kUnusable and kFailed.
  char* message;
  std::int64_t message_size;
};

// Returns 0 or the code of a status whose text it has put into `message`.
using OnProgram = int (*)(int event, ProgramCall* call);
void set_on_program(OnProgram ask);

// Devices hold nothing any more: the configuration has changed.
void forget_loaded();

// An op runs on the device by itself, and so is a program: the hash of what it is.
void note_single_op(int ordinal, std::uint64_t key, const char* name);

// Whether Python gets them, too, one by one; off by default.
void set_log_ops(bool log);

// How many such programs were loaded since the last call, and how many in place of
// another: those that were not reported to Python.
void take_op_loads(std::int64_t* loads, std::int64_t* switches);

// Whether a function is set.
bool has_listener();

// Python's answer, or its error; `message` is room for that.
absl::Status notify(int event, ProgramCall* call, std::string* message);

// For events without an answer.
void report(int event, ProgramCall* call, std::string text = "");

// The device gets the program that is about to run on it. Single ops are only counted
// unless the log is read: a call of Python takes longer than many of them.
void load_onto(int ordinal, std::uint64_t key, const char* name, bool is_op = false);

// For a trace: what a program does from start_ns on, until now.
void record_program(TraceKind kind, int ordinal, std::uint64_t key,
                    const std::string& name, std::int64_t start_ns);

// Time and memory of one phase.
class Phase {
 public:
  Phase();
  void write(ProgramCall* call) const;
  std::int64_t start_ns() const { return start_ns_; }

 private:
  const std::int64_t start_ns_;
  const std::int64_t start_bytes_;
};

}  // namespace ipufeed
