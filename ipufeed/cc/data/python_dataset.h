// A dataset whose elements Python reads, as those of a loader of another framework.
//
//   GetNext() --> on_read(kNext) --> Python reads an element and notes where its arrays
//             <-- copies them                                                      are
//
// tf.data's own way to a Python iterator is from_generator, whose two Python functions
// are called by ops: some tenths of a millisecond for an element. Here a call costs
// microseconds. An element is requested when it is wanted, not earlier, and copied,
// since a loader may write the next one into the same memory.
#pragma once

#include <cstdint>

namespace ipufeed {

// As Python's _ReadCall in sources/loaders/python_elements.py.
struct ReadCall {
  enum Action : std::int32_t { kNext = 0, kClose = 1 };
  // None of them is 0, which ctypes returns for a function that has raised.
  enum Answer : std::int32_t { kElement = -1, kEnd = -2 };

  std::int64_t source;  // the dataset, by Python's number
  std::int64_t pass;    // one iteration over it; its first kNext opens it
  const void** data;    // out: the components' memory, valid until the next call
  char* message;        // out: of a failure
  std::int32_t components;
  std::int32_t message_size;
};

// Returns an Answer, or the status code (of absl) of an error. The calls of a pass are
// one at a time, on any thread.
using OnRead = int (*)(std::int32_t action, ReadCall* call);

// Null for none. Any thread.
void set_on_read(OnRead function);

// Lets further calls fail with Cancelled, and waits for those that run; false after the
// time. For the end of the process: Python unwinds a thread that wants its lock then,
// and TensorFlow would then wait for that thread without an end. Any thread, without
// Python's lock.
bool stop_reading(std::int64_t timeout_ns);

// In a fork, which has none of its parent's threads.
void forget_reading_of_parent();

}  // namespace ipufeed
