// Decides which ops of a graph can be part of a compiled program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensorflow/compiler/jit/compilability_check_util.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/graph/graph.h"

namespace ipufeed {

// Where an op is, or is asked to be: "" unless it is an IPU.
std::string ipu_of(const tensorflow::Node& node,
                   const tensorflow::GraphOptimizationPassOptions& options);

// Whether an op is a part of a program that TensorFlow's executor was asked to run, or
// of one that is compiled already.
bool has_program(const tensorflow::AttrSlice& attributes);

// Whether an op is a call that is compiled as a program of its own.
bool must_compile(const tensorflow::Node& node);

// IpufeedDequeue or IpufeedEnqueue.
bool is_queue_call(const std::string& type);

// An op that was built in an outside_compilation_scope.
bool is_outside(const tensorflow::AttrSlice& attributes);

// Switch, Merge, Enter, Exit, NextIteration, LoopCond: XLA makes functional loops and
// conditionals of whole ones.
bool is_control_flow(const tensorflow::Node& node);

class Compilable {
 public:
  explicit Compilable(const tensorflow::GraphOptimizationPassOptions& options);

  // Whether an op on an IPU can be compiled, with what it calls.
  bool operator()(const tensorflow::Node& node) const;

  // The functions that an op calls, and those that these call.
  std::vector<std::string> called_by(const tensorflow::Node& node) const;

  // Whether a function that an op calls, or one that is called by that, is partly for
  // the host.
  bool calls_outside(const tensorflow::Node& node) const;

  // Whether such a function takes elements of a queue, or gives some.
  bool calls_queues(const tensorflow::Node& node) const;

  // Why it cannot be compiled, for messages.
  std::string reason(const tensorflow::Node& node) const;

  // The functions of the graph.
  tensorflow::FunctionLibraryRuntime* library() const { return library_; }

 private:
  // Whether it makes a stack, a list or an array whose size is not known, or calls what
  // does.
  bool makes_without_size(const tensorflow::Node& node) const;

  const tensorflow::GraphOptimizationPassOptions& options_;
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> libraries_;
  tensorflow::FunctionLibraryRuntime* library_;
  tensorflow::RecursiveCompilabilityChecker checker_;
};

}  // namespace ipufeed
