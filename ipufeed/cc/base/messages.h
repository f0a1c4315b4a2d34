// Log lines of the native core, for Python's logger `ipufeed`:
// TensorFlow's own log drops warnings where TF_CPP_MIN_LOG_LEVEL is 2.
//
//   any thread: log_line(line) --> a short list --> next_line(): Python's thread logs
//   it
//
// No thread waits for Python: Python may wait for the thread that calls log_line().
#pragma once

#include <string>

namespace ipufeed {

// Before Python listens it writes to TensorFlow's log. Any thread.
void log_line(std::string line);

// Waits for the next line. One thread at a time.
std::string next_line();

}  // namespace ipufeed
