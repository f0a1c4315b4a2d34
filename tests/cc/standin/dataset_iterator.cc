// DatasetIterator over the dataset of a test, and the Host of its feeders: no graph
// rewrites, no function runtime, no device.
#include "data/dataset_iterator.h"

#include <utility>

#include "data/host_device.h"

namespace ipufeed {

using tensorflow::data::DatasetBase;
using tensorflow::data::IteratorContext;

class DatasetIterator::Runner {};

DatasetIterator::DatasetIterator()
    : cancellation_(std::make_shared<tensorflow::CancellationManager>()),
      cancelled_(tensorflow::CancellationManager::kInvalidToken) {}

DatasetIterator::~DatasetIterator() = default;

absl::Status DatasetIterator::create(tensorflow::OpKernelContext*, DatasetBase* dataset,
                                     bool, std::unique_ptr<DatasetIterator>* out, int,
                                     bool) {
  std::unique_ptr<DatasetIterator> self(new DatasetIterator);
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

Host::Host(tensorflow::Device*) : device_(nullptr) {}

Host::~Host() = default;

absl::Status Host::find(tensorflow::OpKernelContext* ctx,
                        tensorflow::core::RefCountPtr<Host>* out) {
  tensorflow::ResourceMgr* const resources = ctx->resource_manager();
  Host* host = nullptr;
  TF_RETURN_IF_ERROR(resources->LookupOrCreate<Host>(resources->default_container(),
                                                     "host", &host, [](Host** created) {
                                                       *created = new Host(nullptr);
                                                       return absl::OkStatus();
                                                     }));
  out->reset(host);
  return absl::OkStatus();
}

}  // namespace ipufeed
