// Stores results by column: many small tensors in few large buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/growing_block.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace ipufeed {

// One result, or several in a row that are alike: see ResultSignature.
struct ResultElement {
  std::vector<tensorflow::Tensor> components;
  // How many replicas' parts each component holds: it is [replicas, *shape] if there
  // are several.
  int replicas = 1;
};

// One component of what a program enqueues; the bytes are the caller's.
struct ResultPart {
  tensorflow::DataType dtype;
  tensorflow::TensorShape shape;
  const void* data;
};

// The signature of a queue's results.
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

// The results for which an op was built. Its shapes are those of one replica's
// part, and may be known in part.
struct ResultsWanted {
  std::vector<tensorflow::DataType> dtypes;
  std::vector<tensorflow::PartialTensorShape> shapes;

  // InvalidArgument unless the queue's results match.
  absl::Status check(const ResultSignature& stored, const std::string& queue) const;
};

// Keeps elements that all have the same signature, and records it. A
// tensor of few bytes is copied after the one before it, into a block that grows in
// place: a million scalars are one block of four megabytes, which a dequeue returns as
// a tensor. A large one is kept as it is. Not for strings and other
// dtypes that cannot be copied byte by byte.
class ResultStore {
 public:
  // All of the element, or, with an exception, nothing of it: it is then as it was.
  void append(ResultElement&& element);

  // The same of an element of one replica whose tensors have not been made: each is
  // copied once.
  void append(const std::vector<ResultPart>& parts);

  // Appends the elements of `later`. Likewise all or nothing.
  void append(ResultStore&& later);

  // Moves the oldest element out; there is one. Likewise all or nothing.
  void pop(ResultElement* element);

  bool empty() const { return count_ == 0; }
  std::int64_t count() const { return count_; }
  std::int64_t bytes() const { return bytes_; }

  // Of the kept elements; empty in an empty store.
  const ResultSignature& signature() const { return signature_; }

  // All elements in order, each component as one tensor [count, *stored_shape]. Small
  // results are not copied, and neither is a single large one. The tensors may share
  // this store's memory: nothing may be appended as long as they are there. `queue`
  // is for the error: there is no memory.
  absl::Status stack(const std::string& queue,
                     std::vector<tensorflow::Tensor>* tensors) const;

 private:
  // Small results one after the other, or a large one.
  struct Chunk {
    std::shared_ptr<GrowingBlock> block;
    tensorflow::Tensor whole;
    std::size_t used = 0;   // bytes
    std::size_t front = 0;  // of these, bytes that pop() has given
  };
  struct Column {
    std::vector<Chunk> chunks;
    std::size_t first = 0;  // of chunks: those before it pop() has given
    std::size_t bytes = 0;  // of one element
    tensorflow::TensorShape shape;
  };

  void begin(ResultSignature signature);
  static bool fits(const Column& column);
  static void make_room(Column* column);
  static void put(Column* column, const void* data);
  absl::Status stack(const Column& column, tensorflow::DataType dtype,
                     const std::string& queue, tensorflow::Tensor* tensor) const;

  ResultSignature signature_;
  std::vector<Column> columns_;
  std::int64_t count_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace ipufeed
