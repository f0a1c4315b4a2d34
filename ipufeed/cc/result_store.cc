#include "result_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ipufeed {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;

// From here on a copy costs more than keeping the tensor.
constexpr std::int64_t kWholeBytes = 64 << 10;
constexpr std::int64_t kLargestChunk = 1 << 20;
constexpr std::int64_t kSmallestChunk = 4 << 10;

const char* data_of(const Tensor& tensor) {
  return static_cast<const char*>(tensor.data());
}

}  // namespace

void ResultStore::append(ResultElement&& element) {
  columns_.resize(element.size());
  for (std::size_t i = 0; i < element.size(); ++i) {
    auto& chunks = columns_[i].chunks;
    const auto size = static_cast<std::int64_t>(element[i].TotalBytes());
    bytes_ += size;
    if (size >= kWholeBytes) {
      chunks.push_back({std::move(element[i]), size, /*whole=*/true});
      continue;
    }
    if (chunks.empty() || chunks.back().whole ||
        chunks.back().used + size > chunks.back().buffer.NumElements()) {
      const std::int64_t last = chunks.empty() ? 0 : chunks.back().buffer.NumElements();
      const std::int64_t room =
          std::clamp(2 * last, std::max(kSmallestChunk, size), kLargestChunk);
      chunks.push_back({Tensor(tensorflow::DT_UINT8, TensorShape({room}))});
    }
    Chunk& chunk = chunks.back();
    if (size > 0) {
      std::memcpy(static_cast<char*>(chunk.buffer.data()) + chunk.used,
                  data_of(element[i]), static_cast<std::size_t>(size));
    }
    chunk.used += size;
  }
  ++count_;
}

absl::Status ResultStore::write_outputs(tensorflow::OpKernelContext* ctx,
                                        const std::vector<TensorShape>& shapes) const {
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    TensorShape shape = shapes[i];
    shape.InsertDim(0, count_);
    const auto number = static_cast<int>(i);
    // A single large result is handed on as it is.
    if (count_ == 1 && columns_[i].chunks.back().whole) {
      Tensor output;
      if (!output.CopyFrom(columns_[i].chunks.back().buffer, shape)) {
        return absl::InternalError("a result has another size than its outfeed.");
      }
      ctx->set_output(number, std::move(output));
      continue;
    }
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(number, shape, &output));
    if (count_ == 0) continue;
    auto* to = static_cast<char*>(output->data());
    for (const Chunk& chunk : columns_[i].chunks) {
      std::memcpy(to, chunk.buffer.data(), static_cast<std::size_t>(chunk.used));
      to += chunk.used;
    }
  }
  return absl::OkStatus();
}

}  // namespace ipufeed
