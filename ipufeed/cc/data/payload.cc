#include "data/payload.h"

#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/kernels/ragged_tensor_variant.h"

namespace ipufeed {
namespace {

using tensorflow::Tensor;

// Calls on_bytes(pointer, size) for each run of bytes in `tensor`, and on_opaque() for
// each variant that is none of tf.data's own.
template <class OnBytes, class OnOpaque>
void visit(const Tensor& tensor, OnBytes&& on_bytes, OnOpaque&& on_opaque) {
  if (tensor.dtype() == tensorflow::DT_STRING) {
    const auto strings = tensor.unaligned_flat<tensorflow::tstring>();
    for (std::int64_t i = 0; i < strings.size(); ++i) {
      on_bytes(strings(i).data(), strings(i).size());
    }
  } else if (tensor.dtype() == tensorflow::DT_VARIANT) {
    const auto variants = tensor.unaligned_flat<tensorflow::Variant>();
    for (std::int64_t i = 0; i < variants.size(); ++i) {
      if (const auto* inner = variants(i).get<Tensor>()) {
        visit(*inner, on_bytes, on_opaque);
      } else if (const auto* ragged =
                     variants(i).get<tensorflow::RaggedTensorVariant>()) {
        visit(ragged->values(), on_bytes, on_opaque);
        for (const Tensor& splits : ragged->nested_splits()) {
          visit(splits, on_bytes, on_opaque);
        }
      } else {
        on_opaque();
      }
    }
  } else if (tensorflow::DataTypeCanUseMemcpy(tensor.dtype())) {
    const auto bytes = tensor.tensor_data();
    on_bytes(bytes.data(), bytes.size());
  } else {
    on_opaque();
  }
}

}  // namespace

void add_payload(const Tensor& tensor, Payload* payload) {
  visit(
      tensor,
      [payload](const char*, std::size_t size) {
        payload->bytes += static_cast<std::int64_t>(size);
      },
      [payload] { ++payload->opaque; });
}

ElementSize size_of(const std::vector<Tensor>& components) {
  ElementSize size;
  Payload payload;
  bool first = true;
  for (const Tensor& component : components) {
    add_payload(component, &payload);
    size.has_empty = size.has_empty || component.NumElements() == 0;
    const std::int64_t samples = component.dims() == 0 ? -1 : component.dim_size(0);
    if (samples < 0 || (!first && samples != size.samples)) {
      size.same_leading_dimension = false;
    }
    size.samples = samples;
    first = false;
  }
  if (!size.same_leading_dimension) size.samples = 0;
  size.bytes = payload.bytes;
  size.opaque = static_cast<std::int32_t>(payload.opaque);
  return size;
}

void copy_payload(const Tensor& tensor, TransferBuffer* buffer) {
  buffer->rewind();
  visit(
      tensor,
      [buffer](const char* from, std::size_t size) { buffer->write(from, size); },
      [] {});
}

}  // namespace ipufeed
