// Adapts a program's result to an outfeed: as an element of the ring, or copied
// directly into the store. See ResultQueue::enqueue_from.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/kernels.h"
#include "feeds/result_store.h"

namespace ipufeed {

// A result of the executor: tensors, which are stored or copied.
class WholeResult {
 public:
  explicit WholeResult(ResultElement* element) : element_(*element) {}

  int replicas() const { return element_.replicas; }
  std::size_t size() const { return element_.components.size(); }
  tensorflow::DataType dtype(std::size_t i) const {
    return element_.components[i].dtype();
  }
  const tensorflow::TensorShape& shape(std::size_t i) const {
    return element_.components[i].shape();
  }

  ResultElement& element() { return element_; }
  void store(ResultStore* store) { store->append(std::move(element_)); }

 private:
  ResultElement& element_;
};

// A result of a compiled program: bytes, of which the ring's tensors are made.
class ResultOfParts {
 public:
  ResultOfParts(const std::vector<ResultPart>* parts, const std::string* queue)
      : parts_(*parts), queue_(*queue) {}

  int replicas() const { return 1; }
  std::size_t size() const { return parts_.size(); }
  tensorflow::DataType dtype(std::size_t i) const { return parts_[i].dtype; }
  const tensorflow::TensorShape& shape(std::size_t i) const { return parts_[i].shape; }

  // Throws std::bad_alloc.
  ResultElement& element() {
    if (!element_.components.empty()) return element_;
    std::vector<tensorflow::Tensor> tensors(parts_.size());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (!allocate(parts_[i].dtype, parts_[i].shape, "a result of outfeed queue",
                    queue_, &tensors[i])
               .ok()) {
        throw std::bad_alloc();
      }
      std::memcpy(tensors[i].data(), parts_[i].data, tensors[i].TotalBytes());
    }
    element_.components = std::move(tensors);
    return element_;
  }

  void store(ResultStore* store) {
    if (element_.components.empty()) {
      store->append(parts_);
    } else {
      store->append(std::move(element_));
    }
  }

 private:
  const std::vector<ResultPart>& parts_;
  const std::string& queue_;
  ResultElement element_;
};

template <class Source>
ResultSignature signature_of(const Source& source) {
  ResultSignature signature;
  signature.replicas = source.replicas();
  for (std::size_t i = 0; i < source.size(); ++i) {
    signature.dtypes.push_back(source.dtype(i));
    tensorflow::TensorShape& shape = signature.shapes.emplace_back(source.shape(i));
    if (signature.replicas > 1) shape.RemoveDim(0);
  }
  return signature;
}

}  // namespace ipufeed
