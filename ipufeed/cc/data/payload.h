// Counts and copies the bytes of the tensors that a program reads.
#pragma once

#include <cstdint>
#include <vector>

#include "core/transfer_buffer.h"
#include "tensorflow/core/framework/tensor.h"

namespace ipufeed {

struct Payload {
  std::int64_t bytes = 0;   // numbers, or the characters of strings
  std::int64_t opaque = 0;  // variants whose content is not known to be tensors
};

// Adds the bytes of `tensor`. A variant counts as the tensors inside it (that is how
// tf.data carries ragged and sparse tensors).
void add_payload(const tensorflow::Tensor& tensor, Payload* payload);

// What a reader that only counts has to know of an element.
struct ElementSize {
  std::int64_t bytes = 0;    // see Payload
  std::int64_t samples = 0;  // leading dimension; 0 where the components differ in it
  std::int32_t opaque = 0;   // see Payload
  bool same_leading_dimension = true;  // of all components
  bool has_empty = false;              // a component has a dimension of size 0
};

ElementSize size_of(const std::vector<tensorflow::Tensor>& components);

// Copies all that add_payload() counts to the beginning of `buffer`, which must have
// room.
void copy_payload(const tensorflow::Tensor& tensor, TransferBuffer* buffer);

}  // namespace ipufeed
