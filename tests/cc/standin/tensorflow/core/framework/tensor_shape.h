// Sizes of dimensions. Up to eight, inside the object, so that a copy allocates
// nothing, as TensorFlow's shapes of small tensors.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"

namespace tensorflow {

class TensorShape {
 public:
  TensorShape() = default;
  TensorShape(std::initializer_list<std::int64_t> sizes) {
    for (const std::int64_t size : sizes) AddDim(size);
  }

  static constexpr int MaxDimensions() { return 254; }

  int dims() const { return dims_; }
  std::int64_t dim_size(int d) const { return sizes_[static_cast<std::size_t>(d)]; }
  std::int64_t num_elements() const {
    std::int64_t count = 1;
    for (int d = 0; d < dims_; ++d) count *= dim_size(d);
    return count;
  }

  void AddDim(std::int64_t size) { InsertDim(dims_, size); }
  void InsertDim(int at, std::int64_t size) {
    if (dims_ == kMostDims) std::abort();
    for (int d = dims_++; d > at; --d) sizes_[std::size_t(d)] = dim_size(d - 1);
    sizes_[static_cast<std::size_t>(at)] = size;
  }

  void RemoveDim(int at) {
    for (int d = at; d + 1 < dims_; ++d) sizes_[std::size_t(d)] = dim_size(d + 1);
    --dims_;
  }

  bool operator==(const TensorShape& other) const {
    if (dims_ != other.dims_) return false;
    for (int d = 0; d < dims_; ++d) {
      if (dim_size(d) != other.dim_size(d)) return false;
    }
    return true;
  }
  bool operator!=(const TensorShape& other) const { return !(*this == other); }

  std::string DebugString() const {
    std::string text = "[";
    for (int d = 0; d < dims_; ++d) {
      text += (d > 0 ? "," : "") + std::to_string(dim_size(d));
    }
    return text + "]";
  }

 private:
  static constexpr int kMostDims = 8;

  int dims_ = 0;
  std::array<std::int64_t, kMostDims> sizes_{};
};

// One of which every dimension is known, or none, or some (-1).
class PartialTensorShape {
 public:
  PartialTensorShape() = default;  // of unknown rank
  PartialTensorShape(std::initializer_list<std::int64_t> sizes)
      : has_rank_(true), sizes_(sizes) {}

  int dims() const { return has_rank_ ? sizes_.dims() : -1; }
  std::int64_t dim_size(int d) const { return sizes_.dim_size(d); }
  bool IsCompatibleWith(const TensorShape& shape) const {
    if (!has_rank_) return true;
    if (shape.dims() != dims()) return false;
    for (int d = 0; d < dims(); ++d) {
      if (dim_size(d) >= 0 && dim_size(d) != shape.dim_size(d)) return false;
    }
    return true;
  }
  std::string DebugString() const {
    return has_rank_ ? sizes_.DebugString() : "<unknown>";
  }

 private:
  bool has_rank_ = false;
  TensorShape sizes_;
};

}  // namespace tensorflow
