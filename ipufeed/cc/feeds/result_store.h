// Results by column: many small tensors as few large buffers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace ipufeed {

// One result, or several in a row that are alike: see ResultSignature.
struct ResultElement {
  std::vector<tensorflow::Tensor> components;
  // The replicas of which each component is made, if there are several: [replicas,
  // *shape].
  int replicas = 1;
};

// What the results of a queue are.
struct ResultSignature {
  std::vector<tensorflow::DataType> dtypes;
  std::vector<tensorflow::TensorShape> shapes;  // of one replica's part
  int replicas = 1;

  ResultSignature() = default;
  explicit ResultSignature(const ResultElement& element);

  bool operator==(const ResultSignature& other) const {
    return replicas == other.replicas && dtypes == other.dtypes &&
           shapes == other.shapes;
  }

  // A component as it is stored, with the dimension of the replicas if there are
  // several.
  tensorflow::TensorShape stored_shape(std::size_t component) const;

  // "float32 [3], int32 []", and the replicas if there are several.
  std::string describe() const;
};

// What an op that takes results was built for. Its shapes are those of one replica's
// part, and may be known in part.
struct ResultsWanted {
  std::vector<tensorflow::DataType> dtypes;
  std::vector<tensorflow::PartialTensorShape> shapes;

  // InvalidArgument unless the queue's results are such.
  absl::Status check(const ResultSignature& stored, const std::string& queue) const;
};

// Keeps elements that all have the same dtypes, shapes and replicas, and knows which. A
// tensor of few bytes is copied behind the one before it, so that a million scalars are
// four megabytes and not a million allocations; a large one is kept as it is. Not for
// strings and other dtypes that cannot be copied byte by byte.
class ResultStore {
 public:
  // All of the element, or, with an exception, nothing of it: it is then as it was.
  void append(ResultElement&& element);

  // Puts what `later` holds behind what is here. Likewise all or nothing.
  void append(ResultStore&& later);

  bool empty() const { return count_ == 0; }
  std::int64_t count() const { return count_; }
  std::int64_t bytes() const { return bytes_; }

  // Of what is kept; of an empty store nothing.
  const ResultSignature& signature() const { return signature_; }

  // Sets each output of `ctx` to [count, *stored_shape], elements in order. The op must
  // want what is in the signature. On an error this still has all.
  absl::Status write_outputs(tensorflow::OpKernelContext* ctx) const;

 private:
  struct Chunk {
    tensorflow::Tensor buffer;
    std::int64_t used = 0;  // bytes
    bool whole = false;     // one tensor of an element, not a buffer of ours
  };
  using Column = std::vector<Chunk>;

  void make_room(const ResultElement& element);

  ResultSignature signature_;
  std::vector<Column> columns_;
  std::int64_t count_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace ipufeed
