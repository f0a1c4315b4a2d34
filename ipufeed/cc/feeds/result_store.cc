#include "feeds/result_store.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/kernels.h"

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

std::int64_t bytes_of(const Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.TotalBytes());
}

// Room for `more` in a vector that grows as push_back() does.
template <class T>
void reserve_more(std::vector<T>* vector, std::size_t more) {
  const std::size_t wanted = vector->size() + more;
  if (wanted > vector->capacity()) {
    vector->reserve(std::max(wanted, 2 * vector->capacity()));
  }
}

}  // namespace

ResultSignature::ResultSignature(const ResultElement& element)
    : replicas(element.replicas) {
  for (const Tensor& tensor : element.components) {
    dtypes.push_back(tensor.dtype());
    TensorShape& shape = shapes.emplace_back(tensor.shape());
    if (replicas > 1) shape.RemoveDim(0);
  }
}

TensorShape ResultSignature::stored_shape(std::size_t component) const {
  TensorShape shape = shapes[component];
  if (replicas > 1) shape.InsertDim(0, replicas);
  return shape;
}

std::string ResultSignature::describe() const {
  std::string text;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", tensorflow::DataTypeString(dtypes[i]),
                    " ", shapes[i].DebugString());
  }
  if (replicas > 1) absl::StrAppend(&text, " from each of ", replicas, " replicas");
  return text;
}

absl::Status ResultsWanted::check(const ResultSignature& stored,
                                  const std::string& queue) const {
  bool same = dtypes == stored.dtypes && shapes.size() == stored.shapes.size();
  for (std::size_t i = 0; same && i < shapes.size(); ++i) {
    same = shapes[i].IsCompatibleWith(stored.shapes[i]);
  }
  if (same) return absl::OkStatus();
  std::string wanted;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    absl::StrAppend(&wanted, i > 0 ? ", " : "", tensorflow::DataTypeString(dtypes[i]),
                    i < shapes.size() ? " " : "",
                    i < shapes.size() ? shapes[i].DebugString() : "");
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "The results of outfeed queue '", queue, "' are ", stored.describe(),
      ", and this dequeue is for ", wanted,
      ". Dequeue them with what was built for the program that enqueued them, or run "
      "the queue's `deleter` to forget them."));
}

// All that append() allocates.
void ResultStore::make_room(const ResultElement& element) {
  if (columns_.empty()) {
    ResultSignature signature(element);
    columns_.resize(element.components.size());
    signature_ = std::move(signature);
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Tensor& tensor = element.components[i];
    Column& chunks = columns_[i];
    const std::int64_t size = bytes_of(tensor);
    const bool fits = !chunks.empty() && !chunks.back().whole &&
                      chunks.back().used + size <= chunks.back().buffer.NumElements();
    if (fits && size < kWholeBytes) continue;
    fault_point("the growth of a store of results");
    reserve_more(&chunks, 1);
    if (size >= kWholeBytes) continue;
    const std::int64_t last = chunks.empty() ? 0 : chunks.back().buffer.NumElements();
    const std::int64_t room =
        std::clamp(2 * last, std::max(kSmallestChunk, size), kLargestChunk);
    Tensor buffer;
    // Without memory for a buffer the tensor itself is kept: append() sees that nothing
    // fits.
    if (allocate(tensorflow::DT_UINT8, TensorShape({room}), "a store of results", "",
                 &buffer)
            .ok()) {
      chunks.push_back({std::move(buffer)});
    }
  }
}

void ResultStore::append(ResultElement&& element) {
  make_room(element);
  // From here on nothing throws: room is reserved, and moves of tensors do not.
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Tensor& tensor = element.components[i];
    Column& chunks = columns_[i];
    const std::int64_t size = bytes_of(tensor);
    bytes_ += size;
    if (size >= kWholeBytes || chunks.empty() || chunks.back().whole ||
        chunks.back().used + size > chunks.back().buffer.NumElements()) {
      chunks.push_back({std::move(tensor), size, /*whole=*/true});
      continue;
    }
    Chunk& chunk = chunks.back();
    if (size > 0) {
      std::memcpy(static_cast<char*>(chunk.buffer.data()) + chunk.used, data_of(tensor),
                  static_cast<std::size_t>(size));
    }
    chunk.used += size;
  }
  ++count_;
}

void ResultStore::append(ResultStore&& later) {
  if (later.empty()) return;
  if (empty()) {
    *this = std::move(later);
    return;
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    reserve_more(&columns_[i], later.columns_[i].size());
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::move(later.columns_[i].begin(), later.columns_[i].end(),
              std::back_inserter(columns_[i]));
  }
  count_ += later.count_;
  bytes_ += later.bytes_;
}

absl::Status ResultStore::write_outputs(tensorflow::OpKernelContext* ctx) const {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Column& chunks = columns_[i];
    TensorShape shape = signature_.stored_shape(i);
    shape.InsertDim(0, count_);
    const auto number = static_cast<int>(i);
    // A single large result is handed on as it is.
    if (count_ == 1 && chunks.back().whole) {
      Tensor output;
      if (!output.CopyFrom(chunks.back().buffer, shape)) {
        return absl::InternalError("a result has another size than its signature.");
      }
      ctx->set_output(number, std::move(output));
      continue;
    }
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(allocate_output(ctx, number, shape, &output));
    auto left = bytes_of(*output);
    auto* to = static_cast<char*>(output->data());
    for (const Chunk& chunk : chunks) {
      if (chunk.used == 0) continue;
      left -= chunk.used;
      if (left < 0) break;
      std::memcpy(to, chunk.buffer.data(), static_cast<std::size_t>(chunk.used));
      to += chunk.used;
    }
    if (left != 0) {
      return absl::InternalError("the results have another size than their signature.");
    }
  }
  return absl::OkStatus();
}

}  // namespace ipufeed
