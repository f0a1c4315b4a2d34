// Counts and copies the bytes of a tensor that a program reads.
#pragma once

#include <cstdint>

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

// Copies all that add_payload() counts to the beginning of `buffer`, which must have
// room.
void copy_payload(const tensorflow::Tensor& tensor, TransferBuffer* buffer);

}  // namespace ipufeed
