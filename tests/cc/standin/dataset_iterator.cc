// DatasetIterator over the dataset of a test: no graph rewrites, no function runtime.
#include "data/dataset_iterator.h"

#include <utility>

namespace ipufeed {

using tensorflow::data::DatasetBase;
using tensorflow::data::IteratorContext;

DatasetIterator::DatasetIterator()
    : cancellation_(std::make_shared<tensorflow::CancellationManager>()),
      cancelled_(tensorflow::CancellationManager::kInvalidToken) {}

DatasetIterator::~DatasetIterator() = default;

absl::Status DatasetIterator::create(tensorflow::OpKernelContext*, DatasetBase* dataset,
                                     bool, std::unique_ptr<DatasetIterator>* out, int,
                                     bool) {
  std::unique_ptr<DatasetIterator> self(new DatasetIterator);
  self->link_ = std::make_shared<std::atomic<tensorflow::Device*>>(nullptr);
  dataset->Ref();
  self->dataset_.reset(dataset);
  IteratorContext::Params params;
  params.cancellation_manager = self->cancellation_.get();
  self->context_ = std::make_unique<IteratorContext>(params);
  TF_RETURN_IF_ERROR(self->restart());
  *out = std::move(self);
  return absl::OkStatus();
}

absl::Status DatasetIterator::restart() {
  iterator_.reset();
  return dataset_->MakeIterator(context_.get(), nullptr, "test", &iterator_);
}

absl::Status DatasetIterator::get_next(std::vector<tensorflow::Tensor>* components,
                                       bool* end_of_dataset) {
  components->clear();
  return iterator_->GetNext(context_.get(), components, end_of_dataset);
}

// No device stands behind the link from the start.
void HostDevice::detach(const HostLink& link) { link->store(nullptr); }

}  // namespace ipufeed
