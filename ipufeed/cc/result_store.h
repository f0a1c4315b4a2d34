// Results by column: many small tensors as few large buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace ipufeed {

using ResultElement = std::vector<tensorflow::Tensor>;

// Keeps elements that all have the same dtypes and shapes. A tensor of few bytes is
// copied behind the one before it, so that a million scalars are four megabytes and not
// a million allocations; a large one is kept as it is. Not for strings and other dtypes
// that cannot be copied byte by byte.
class ResultStore {
 public:
  void append(ResultElement&& element);

  bool empty() const { return count_ == 0; }
  std::int64_t count() const { return count_; }
  std::int64_t bytes() const { return bytes_; }

  // Sets each output of `ctx` to [count, *shape], elements in order; shapes and dtypes
  // are those of one element's components.
  absl::Status write_outputs(tensorflow::OpKernelContext* ctx,
                             const std::vector<tensorflow::TensorShape>& shapes) const;

 private:
  struct Chunk {
    tensorflow::Tensor buffer;
    std::int64_t used = 0;  // bytes
    bool whole = false;     // one tensor of an element, not a buffer of ours
  };
  struct Column {
    std::vector<Chunk> chunks;
  };

  std::vector<Column> columns_;
  std::int64_t count_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace ipufeed
