#include "feeds/result_store.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/kernels.h"

namespace ipufeed {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;

// For larger tensors a copy costs more than keeping the tensor.
constexpr std::size_t kWholeBytes = 64 << 10;
constexpr std::size_t kSmallestBlock = 4 << 10;
// The alignment of a tensor's parts that TensorFlow's kernels need.
constexpr std::size_t kTensorAlignment = kCacheLine;

// A part of a block, as the memory of a tensor.
class BlockBuffer final : public tensorflow::TensorBuffer {
 public:
  BlockBuffer(std::shared_ptr<GrowingBlock> block, std::size_t from, std::size_t bytes)
      : TensorBuffer(block->data() + from), block_(std::move(block)), bytes_(bytes) {}

  std::size_t size() const override { return bytes_; }
  tensorflow::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(
      tensorflow::AllocationDescription* /*proto*/) const override {}

 private:
  const std::shared_ptr<GrowingBlock> block_;
  const std::size_t bytes_;
};

struct Unref {
  void operator()(BlockBuffer* buffer) const { buffer->Unref(); }
};

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

void ResultStore::begin(ResultSignature signature) {
  std::vector<Column> columns(signature.dtypes.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].shape = signature.stored_shape(i);
    columns[i].bytes =
        static_cast<std::size_t>(columns[i].shape.num_elements()) *
        static_cast<std::size_t>(tensorflow::DataTypeSize(signature.dtypes[i]));
  }
  columns_ = std::move(columns);
  signature_ = std::move(signature);
}

// Whether one more element goes into the last block.
bool ResultStore::fits(const Column& column) {
  if (column.bytes >= kWholeBytes || column.chunks.empty()) return false;
  const Chunk& last = column.chunks.back();
  return last.block != nullptr && last.used + column.bytes <= last.block->room();
}

// All that one more element allocates in a column, but its tensor, which it needs if it
// is large or there is no memory for a block: it does not fit then.
void ResultStore::make_room(Column* column) {
  std::vector<Chunk>& chunks = column->chunks;
  if (column->first > 0 && 2 * column->first >= chunks.size()) {
    chunks.erase(chunks.begin(),
                 chunks.begin() + static_cast<std::ptrdiff_t>(column->first));
    column->first = 0;
  }
  if (fits(*column)) return;
  if (column->bytes < kWholeBytes) {
    if (chunks.empty() || chunks.back().block == nullptr) {
      fault_point("the growth of a store of results");
      reserve_more(&chunks, 1);
      chunks.push_back({std::make_shared<GrowingBlock>(), {}});
    }
    Chunk& last = chunks.back();
    if (last.front > 0 && 2 * last.front >= last.used) {
      last.used -= last.front;
      std::memmove(last.block->data(), last.block->data() + last.front, last.used);
      last.front = 0;
      if (fits(*column)) return;
    }
    const std::size_t room =
        std::max({kSmallestBlock, 2 * last.block->room(), last.used + column->bytes});
    if (!allocation_fails("a store of results") && last.block->grow(room, last.used)) {
      return;
    }
    if (last.used == 0) chunks.pop_back();
  }
  fault_point("the growth of a store of results");
  reserve_more(&chunks, 1);
}

// Copies an element into the last block, which it fits into.
void ResultStore::put(Column* column, const void* data) {
  Chunk& chunk = column->chunks.back();
  if (column->bytes > 0) {
    std::memcpy(chunk.block->data() + chunk.used, data, column->bytes);
  }
  chunk.used += column->bytes;
}

void ResultStore::append(ResultElement&& element) {
  if (columns_.empty()) begin(ResultSignature(element));
  for (Column& column : columns_) make_room(&column);
  // From here on nothing throws: room is reserved, and moves of tensors do not.
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    Tensor& tensor = element.components[i];
    bytes_ += static_cast<std::int64_t>(column.bytes);
    if (fits(column)) {
      put(&column, tensor.data());
    } else {
      column.chunks.push_back({nullptr, std::move(tensor), column.bytes});
    }
  }
  ++count_;
}

void ResultStore::append(const std::vector<ResultPart>& parts) {
  if (columns_.empty()) {
    ResultSignature signature;
    for (const ResultPart& part : parts) {
      signature.dtypes.push_back(part.dtype);
      signature.shapes.push_back(part.shape);
    }
    begin(std::move(signature));
  }
  std::vector<Tensor> whole;  // of the parts that are kept as they are
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    make_room(&columns_[i]);
    if (fits(columns_[i])) continue;
    whole.resize(columns_.size());
    if (!allocate(parts[i].dtype, parts[i].shape, "a result of outfeed queue", "",
                  &whole[i])
             .ok()) {
      throw std::bad_alloc();
    }
    std::memcpy(whole[i].data(), parts[i].data, columns_[i].bytes);
  }
  // From here on nothing throws.
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    bytes_ += static_cast<std::int64_t>(column.bytes);
    if (fits(column)) {
      put(&column, parts[i].data);
    } else {
      column.chunks.push_back({nullptr, std::move(whole[i]), column.bytes});
    }
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
    reserve_more(&columns_[i].chunks, later.columns_[i].chunks.size());
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& from = later.columns_[i];
    std::move(from.chunks.begin() + static_cast<std::ptrdiff_t>(from.first),
              from.chunks.end(), std::back_inserter(columns_[i].chunks));
  }
  count_ += later.count_;
  bytes_ += later.bytes_;
}

void ResultStore::pop(ResultElement* element) {
  ResultElement popped{std::vector<Tensor>(columns_.size()), signature_.replicas};
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    if (column.chunks[column.first].block == nullptr) continue;
    if (!allocate(signature_.dtypes[i], column.shape, "a result of outfeed queue", "",
                  &popped.components[i])
             .ok()) {
      throw std::bad_alloc();
    }
  }
  // From here on nothing throws.
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    Chunk& chunk = column.chunks[column.first];
    bytes_ -= static_cast<std::int64_t>(column.bytes);
    if (chunk.block == nullptr) {
      popped.components[i] = std::move(chunk.whole);
      chunk.front = chunk.used;
    } else {
      if (column.bytes > 0) {
        std::memcpy(popped.components[i].data(), chunk.block->data() + chunk.front,
                    column.bytes);
      }
      chunk.front += column.bytes;
    }
    if (chunk.front < chunk.used) continue;
    const bool is_last = column.first + 1 == column.chunks.size();
    if (is_last && chunk.block != nullptr && chunk.block->room() < kWholeBytes) {
      chunk.front = chunk.used = 0;  // the next ones go there
      continue;
    }
    chunk.block.reset();
    ++column.first;
  }
  --count_;
  *element = std::move(popped);
}

absl::Status ResultStore::stack(const std::string& queue,
                                std::vector<Tensor>* tensors) const {
  std::vector<Tensor> all(columns_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    TF_RETURN_IF_ERROR(stack(columns_[i], signature_.dtypes[i], queue, &all[i]));
  }
  *tensors = std::move(all);
  return absl::OkStatus();
}

absl::Status ResultStore::stack(const Column& column, tensorflow::DataType dtype,
                                const std::string& queue, Tensor* tensor) const {
  TensorShape shape = column.shape;
  shape.InsertDim(0, count_);
  const Chunk& front = column.chunks[column.first];
  const bool is_alone = column.first + 1 == column.chunks.size();
  if (is_alone && front.block == nullptr) {
    if (tensor->CopyFrom(front.whole, shape)) return absl::OkStatus();
    return absl::InternalError("a result has another size than its signature.");
  }
  if (is_alone && front.front % kTensorAlignment == 0) {
    // The tensor has a reference of its own.
    const std::unique_ptr<BlockBuffer, Unref> buffer(
        new BlockBuffer(front.block, front.front, front.used - front.front));
    *tensor = Tensor(dtype, shape, buffer.get());
    return absl::OkStatus();
  }
  TF_RETURN_IF_ERROR(
      allocate(dtype, shape, "the results of outfeed queue", queue, tensor));
  std::size_t left = tensor->TotalBytes();
  auto* to = static_cast<char*>(tensor->data());
  for (std::size_t c = column.first; c < column.chunks.size(); ++c) {
    const Chunk& chunk = column.chunks[c];
    const std::size_t bytes = chunk.used - chunk.front;
    if (bytes == 0) continue;
    if (bytes > left) break;
    left -= bytes;
    const void* const from =
        chunk.block == nullptr ? chunk.whole.data() : chunk.block->data() + chunk.front;
    std::memcpy(to, from, bytes);
    to += bytes;
  }
  if (left == 0) return absl::OkStatus();
  return absl::InternalError("the results have another size than their signature.");
}

}  // namespace ipufeed
