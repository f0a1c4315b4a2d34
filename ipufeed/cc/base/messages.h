// What the native core says to a person, by Python's logger `ipufeed` like all else:
// TensorFlow's own log drops warnings where TF_CPP_MIN_LOG_LEVEL is 2.
//
//   any thread: say(line) --> a short list --> next_line(): Python's thread logs it
//
// No thread waits for Python: Python may wait for the very thread that calls say().
#pragma once

#include <string>

namespace ipufeed {

// Before Python listens it goes to TensorFlow's log. Any thread.
void say(std::string line);

// Waits for the next line. One thread at a time.
std::string next_line();

}  // namespace ipufeed
