#pragma once

#include <vector>

#include "tensorflow/core/framework/tensor.h"

namespace tensorflow {

class RaggedTensorVariant {
 public:
  const Tensor& values() const { return values_; }
  const std::vector<Tensor>& nested_splits() const { return nested_splits_; }

 private:
  Tensor values_;
  std::vector<Tensor> nested_splits_;
};

}  // namespace tensorflow
