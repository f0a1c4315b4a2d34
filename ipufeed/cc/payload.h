// What a tensor weighs, and how to copy it: bytes that a program gets to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "tensorflow/core/framework/tensor.h"

namespace ipufeed {

struct Payload {
  std::int64_t bytes = 0;   // numbers, or the characters of strings
  std::int64_t opaque = 0;  // variants whose content is not known to be tensors
};

// Adds up what `tensor` holds. A variant counts as the tensors inside it (that is how
// tf.data carries ragged and sparse tensors).
void add_payload(const tensorflow::Tensor& tensor, Payload* payload);

// The place that a transfer to a device would read from: page-aligned, grown as needed.
class TransferBuffer {
 public:
  // Makes room for `bytes` and touches it, so that no copy pays for memory that the
  // kernel still has to find.
  void reserve(std::size_t bytes);

  // Copies all that add_payload() counts, for which there must be room.
  void copy(const tensorflow::Tensor& tensor);

 private:
  struct Free {
    void operator()(char* memory) const { ::operator delete(memory, kPage); }
  };
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::align_val_t kPage{kPageBytes};
  std::unique_ptr<char, Free> memory_;
  std::size_t size_ = 0;
};

}  // namespace ipufeed
