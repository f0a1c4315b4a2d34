// Calls of the host from a program, with tensors in both directions: to print, keep
// tensors between executions, read tables, and run users' functions.
//
//   program: IpufeedHostCall(inputs, token) --> call_host() --> Python's function, or a
//                                                               function of a library
//
// The chain of tokens orders the calls of a program (feeds/queue_ops.h). Replicas, and
// the stages of a pipeline, may call at the same time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "run/program.h"

namespace ipufeed {

// A tensor in memory, row major; as Python's _HostTensor in ops/host_calls.py.
struct HostTensor {
  std::int32_t dtype;  // of TensorFlow
  std::int32_t rank;
  const std::int64_t* shape;
  void* data;
  std::int64_t elements;
};

// As Python's _HostCall in ops/host_calls.py.
struct HostCall {
  const char* kind;  // which function
  const char* text;  // for it; of text_size bytes
  std::int64_t text_size;
  std::int64_t op;          // the op's number in its program
  std::int64_t run;         // of the program, in this process
  std::int64_t mini_batch;  // in the run; -1 outside of a pipeline
  std::int32_t ordinal;
  std::int32_t replica;   // among those of all processes
  std::int32_t replicas;  // of this process
  std::int32_t inputs;
  std::int32_t outputs;
  const HostTensor* input;
  const HostTensor* output;
  char* message;  // of an error
  std::int32_t message_size;
};

// Returns a status code of absl; an error's text is then in the message.
using OnHostCall = int (*)(HostCall* call);

// Python's function, for all kinds but "library". Any thread; null for none.
void set_on_host_call(OnHostCall function);

// Fills run, replica and so on from the thread's program, and calls. A call of the kind
// "library" calls a function of a shared library: see library_call.cc.
absl::Status call_host(Program& program, const Context& context, HostCall* call);

// library_call.cc: text is path, symbol, name and attributes, separated by zeros.
absl::Status call_library(const HostCall& call);

// The tensors of a call, which keeps their shapes.
class HostTensors {
 public:
  void add(std::int32_t dtype, std::vector<std::int64_t> shape, void* data);
  const HostTensor* get();
  std::int32_t size() const { return static_cast<std::int32_t>(tensors_.size()); }

 private:
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<HostTensor> tensors_;
};

}  // namespace ipufeed
