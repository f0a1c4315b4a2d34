// The memory of an IPU's tensors; xla/compile/program_memory.h is that of programs.
//
// Each run of a program writes the new values of its variables to memory of its own, so
// that a run that fails has changed none of them (xla/compile/ipu_executable.h). Large
// blocks come from, and return to, the process's cache of blocks
// (core/spare_memory.h): with new memory for each run, the kernel's mapping of pages
// would take longer than the computation. With oneDNN, the default, TensorFlow's own
// allocator keeps its blocks, and is used as it is.
#pragma once

#include "tensorflow/core/framework/allocator.h"

namespace ipufeed {

// TensorFlow's allocator of the CPU, with the cache for large blocks. It frees what
// TensorFlow's has allocated, and the other way round. Any thread.
tensorflow::Allocator* tensor_memory();

}  // namespace ipufeed
