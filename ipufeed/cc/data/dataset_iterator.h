// The iterator that training would use, with a lifetime independent of its op.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/data/unbounded_thread_pool.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/function_handle_cache.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {

class HostDevice;

// Iterates a tf.data dataset as `iter(dataset)` does: graph rewrites, options,
// AUTOTUNE.
//
// It keeps nothing of the op's step: it has a function runtime and thread pools of its
// own, and so may outlive the op. Its functions run on the HostDevice of the op's
// device, whose memory and resources they use.
//
// Threads: create, get_next and restart on one thread at a time; cancel on any.
class DatasetIterator {
 public:
  // finalize=false leaves out rewrites, options and AUTOTUNE, as the original system
  // did: a diagnostic, since its rates are not those of training. threads: for the
  // dataset's own parallel work; 0 for as many as training would have. modelled=true
  // keeps the books of AUTOTUNE's model (time, bytes and elements of each step) where
  // AUTOTUNE itself is off, too; that costs some time per step and element.
  static absl::Status create(tensorflow::OpKernelContext* ctx,
                             tensorflow::data::DatasetBase* dataset, bool finalize,
                             std::unique_ptr<DatasetIterator>* out, int threads = 0,
                             bool modelled = false);
  ~DatasetIterator();
  DatasetIterator(const DatasetIterator&) = delete;
  DatasetIterator& operator=(const DatasetIterator&) = delete;

  // Replaces *components by those of the next element, or sets *end_of_dataset.
  absl::Status get_next(std::vector<tensorflow::Tensor>* components,
                        bool* end_of_dataset);

  // Starts the dataset again from its beginning, as the next `for` over it would.
  absl::Status restart();

  // Makes a get_next that waits inside the dataset return with Cancelled, as far as the
  // dataset's functions can be interrupted: Python code runs to the end of the element.
  void cancel() { cancellation_->StartCancel(); }

  // What cancel() uses, for callers that may cancel when the iterator is destroyed,
  // which then does nothing.
  std::shared_ptr<tensorflow::CancellationManager> cancellation() const {
    return cancellation_;
  }

 private:
  class Runner;

  DatasetIterator();

  HostDevice* host_ = nullptr;  // for the life of the process
  // Destroyed from the last to the first: an iterator before what its functions run on.
  const std::shared_ptr<tensorflow::CancellationManager> cancellation_;
  const tensorflow::CancellationToken cancelled_;
  tensorflow::ResourceMgr resources_;
  std::unique_ptr<tensorflow::FunctionLibraryDefinition> functions_;
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> runtime_;
  std::unique_ptr<tensorflow::FunctionHandleCache> handles_;
  std::unique_ptr<tensorflow::data::UnboundedThreadPool> threads_;
  std::unique_ptr<Runner> runner_;
  tensorflow::core::RefCountPtr<tensorflow::data::DatasetBase> dataset_;
  tensorflow::core::RefCountPtr<tensorflow::data::DatasetBase> finalized_;
  std::unique_ptr<tensorflow::data::IteratorContext::Params> params_;
  bool modelled_ = false;
  std::unique_ptr<tensorflow::data::IteratorContext> context_;
  std::unique_ptr<tensorflow::data::IteratorBase> iterator_;
};

}  // namespace ipufeed
