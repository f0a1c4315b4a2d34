// Ops on an IPU that TensorFlow's executor runs, and the log line that names them.
#pragma once

#include <string>

#include "tensorflow/core/graph/graph.h"

namespace ipufeed {

// Whether an op that is on an IPU and in no program need not be named: it belongs on
// the host, or is a program.
bool belongs_to_executor(const tensorflow::Node& node);

// Logs, once for each op, that it cannot be compiled, and why. Any thread.
void log_left(const tensorflow::Node& node, const std::string& why);

}  // namespace ipufeed
