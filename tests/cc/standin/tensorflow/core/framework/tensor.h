// A dtype, a shape, and a buffer that copies share.
//
// As in TensorFlow: the buffer goes with the last tensor that refers to it; a tensor
// whose buffer could not be allocated is not initialized, has a null data() and still
// says how many bytes it would have; one that was moved from is not initialized.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "allocation.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace tensorflow {

class AllocationDescription;

// Memory of a tensor, which the last reference takes with it.
class TensorBuffer {
 public:
  explicit TensorBuffer(void* data) : data_(data) {}
  virtual ~TensorBuffer() = default;
  TensorBuffer(const TensorBuffer&) = delete;
  TensorBuffer& operator=(const TensorBuffer&) = delete;

  void* data() const { return data_; }
  virtual std::size_t size() const = 0;
  virtual TensorBuffer* root_buffer() = 0;
  virtual void FillAllocationDescription(AllocationDescription* proto) const = 0;

  // Relaxed: the copying thread has a reference, so that the buffer stays.
  void Ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  // Pairs with itself: the last one to let go has seen what the others did with it.
  void Unref() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  void* const data_;
  std::atomic<int> references_{1};
};

class Tensor {
 public:
  Tensor() : Tensor(DT_FLOAT, TensorShape({0})) {}
  Tensor(DataType dtype, const TensorShape& shape)
      : dtype_(dtype), shape_(shape), buffer_(make_buffer()) {}
  // Has a reference to the buffer of its own.
  Tensor(DataType dtype, const TensorShape& shape, TensorBuffer* buffer)
      : dtype_(dtype), shape_(shape), buffer_(share(buffer)) {}
  Tensor(const Tensor& other)
      : dtype_(other.dtype_), shape_(other.shape_), buffer_(share(other.buffer_)) {}
  Tensor(Tensor&& other) noexcept
      : dtype_(other.dtype_),
        shape_(other.shape_),
        buffer_(std::exchange(other.buffer_, nullptr)) {}
  Tensor& operator=(const Tensor& other) {
    TensorBuffer* const buffer = share(other.buffer_);
    drop(buffer_);
    dtype_ = other.dtype_;
    shape_ = other.shape_;
    buffer_ = buffer;
    return *this;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    if (this == &other) return *this;
    drop(buffer_);
    dtype_ = other.dtype_;
    shape_ = other.shape_;
    buffer_ = std::exchange(other.buffer_, nullptr);
    return *this;
  }
  ~Tensor() { drop(buffer_); }

  DataType dtype() const { return dtype_; }
  const TensorShape& shape() const { return shape_; }
  int dims() const { return shape_.dims(); }
  std::int64_t dim_size(int d) const { return shape_.dim_size(d); }
  std::int64_t NumElements() const { return shape_.num_elements(); }
  std::size_t TotalBytes() const {
    return static_cast<std::size_t>(NumElements()) *
           static_cast<std::size_t>(DataTypeSize(dtype_));
  }
  bool IsInitialized() const {
    return NumElements() == 0 || (buffer_ != nullptr && buffer_->data() != nullptr);
  }
  void* data() const { return buffer_ == nullptr ? nullptr : buffer_->data(); }
  std::string_view tensor_data() const {
    return {static_cast<const char*>(data()), TotalBytes()};
  }

  // Shares the other's buffer under another shape; false if the sizes differ.
  bool CopyFrom(const Tensor& other, const TensorShape& shape) {
    if (other.NumElements() != shape.num_elements()) return false;
    *this = other;
    shape_ = shape;
    return true;
  }
  bool SharesBufferWith(const Tensor& other) const {
    return buffer_ != nullptr && buffer_ == other.buffer_;
  }

  template <class T>
  class Flat {
   public:
    Flat(T* data, std::int64_t size) : data_(data), size_(size) {}
    T* data() const { return data_; }
    std::int64_t size() const { return size_; }
    T& operator()(std::int64_t i) const { return data_[i]; }

   private:
    T* data_;
    std::int64_t size_;
  };
  template <class T>
  Flat<T> flat() {
    return {static_cast<T*>(data()), NumElements()};
  }
  template <class T>
  Flat<const T> flat() const {
    return {static_cast<const T*>(data()), NumElements()};
  }
  template <class T>
  Flat<const T> unaligned_flat() const {
    return flat<T>();
  }

 private:
  struct Buffer final : TensorBuffer {
    explicit Buffer(std::size_t bytes)
        : TensorBuffer(standin::allocate(bytes)), bytes_(bytes) {}
    ~Buffer() override { standin::deallocate(data()); }
    std::size_t size() const override { return bytes_; }
    TensorBuffer* root_buffer() override { return this; }
    void FillAllocationDescription(AllocationDescription* /*proto*/) const override {}

    const std::size_t bytes_;
  };

  TensorBuffer* make_buffer() const {
    return TotalBytes() == 0 ? nullptr : new Buffer(TotalBytes());
  }
  static TensorBuffer* share(TensorBuffer* buffer) {
    if (buffer != nullptr) buffer->Ref();
    return buffer;
  }
  static void drop(TensorBuffer* buffer) {
    if (buffer != nullptr) buffer->Unref();
  }

  DataType dtype_;
  TensorShape shape_;
  TensorBuffer* buffer_;
};

}  // namespace tensorflow
