// Compiles whole graphs: ops on an IPU that are not in a program become one.
//
//   Session.run or a call of a tf.function
//        |  TensorFlow prunes the graph to its feeds and fetches, and places it
//        v
//   mark_clusters()      ops of one IPU with no op of the host in between: one cluster
//   TensorFlow           makes a function of each cluster (EncapsulateSubgraphsPass)
//   launch_clusters()    makes each call of such a function the launch of a compiled
//                        program, as ipu_compiler.compile does
//
// Ops that cannot be compiled (compilable.h) stay with TensorFlow's executor, which is
// logged once.
#pragma once

#include "absl/status/status.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"

namespace ipufeed {

// Whether graphs that are prepared from now on are compiled as a whole, and not run op
// by op. Any thread. Default: true.
void set_compiles_graphs(bool compiles);
bool compiles_graphs();

// Marks the ops of each cluster with its name, for TensorFlow's pass.
absl::Status mark_clusters(const tensorflow::GraphOptimizationPassOptions& options);

// Replaces the calls of the functions that TensorFlow has made of clusters.
absl::Status launch_clusters(const tensorflow::GraphOptimizationPassOptions& options);

// Keeps loops and conditionals on an IPU that can be compiled whole: TensorFlow would
// take them apart for its executor.
absl::Status keep_control_flow(const tensorflow::GraphOptimizationPassOptions& options);

// Inlines the functions that a version 1 graph with an IPU calls, before the graph is
// placed, if one of them uses its program's queues or ends it and runs on TensorFlow's
// executor: there a call is a program of its own.
absl::Status inline_calls(const tensorflow::GraphOptimizationPassOptions& options);

// Keeps TensorFlow's Grappler from inlining the functions of all other graphs with an
// IPU: it then places the graph again by the kernels for the name IPU, of
// which most operations have none, and the rest, with the variables, goes to the CPU.
// The mark is removed after Grappler.
absl::Status keep_calls(const tensorflow::GraphOptimizationPassOptions& options);
absl::Status release_calls(const tensorflow::GraphOptimizationPassOptions& options);

// Gives random ops that TensorFlow has built, as those of initializers, the seeds of
// their IPU, before clusters are marked.
absl::Status draw_device_seeds(const tensorflow::GraphOptimizationPassOptions& options);

// Orders the programs of a run that exchange values with other processes
// (host_collectives.py), by their numbers: without a dependency between them they would
// start in any order, and all processes must start the same one first. Only those of
// this run: one that is not fetched is not run.
absl::Status order_collectives(const tensorflow::GraphOptimizationPassOptions& options);

// Makes the variables that belong to a program before its first run, which is then the
// same program as later ones: to XLA a variable without a value is another input.
absl::Status make_program_state(
    const tensorflow::GraphOptimizationPassOptions& options);

}  // namespace ipufeed
