// A dataset of a test, and an iterator of it. Their functions are called as tf.data's
// are: GetNext by one thread at a time, and a cancellation in between by any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorflow {
namespace data {

class IteratorContext {
 public:
  struct Params {
    CancellationManager* cancellation_manager = nullptr;
  };
  explicit IteratorContext(const Params& params) : params_(params) {}
  CancellationManager* cancellation_manager() const {
    return params_.cancellation_manager;
  }

 private:
  const Params params_;
};

class IteratorBase {
 public:
  virtual ~IteratorBase() = default;
  virtual absl::Status GetNext(IteratorContext* ctx, std::vector<Tensor>* components,
                               bool* end_of_sequence) = 0;
};

class DatasetBase : public core::RefCounted {
 public:
  virtual absl::Status MakeIterator(IteratorContext* ctx, const IteratorBase* parent,
                                    const std::string& prefix,
                                    std::unique_ptr<IteratorBase>* iterator) const = 0;
};

}  // namespace data
}  // namespace tensorflow
