#include "dataset_iterator.h"

#include <functional>
#include <utility>

#include "tensorflow/core/data/dataset_utils.h"
#include "tensorflow/core/data/root_dataset.h"

namespace ipufeed {

using tensorflow::Device;
using tensorflow::Env;
using tensorflow::FunctionHandleCache;
using tensorflow::FunctionLibraryDefinition;
using tensorflow::OpKernelContext;
using tensorflow::OptimizerOptions;
using tensorflow::ProcessFunctionLibraryRuntime;
using tensorflow::StaticDeviceMgr;
using tensorflow::data::DatasetBase;
using tensorflow::data::IteratorContext;

absl::Status DatasetIterator::create(OpKernelContext* ctx, DatasetBase* dataset,
                                     bool finalize,
                                     std::unique_ptr<DatasetIterator>* out, int threads,
                                     bool modelled) {
  auto* runtime = ctx->function_library();
  if (runtime == nullptr) {
    return absl::InternalError("the op has no function library, so it cannot iterate.");
  }
  std::unique_ptr<DatasetIterator> self(new DatasetIterator);
  Device* device = runtime->device();
  // A device manager of our own over the op's device. With the session's,
  // ~FunctionHandleCache would look the device up in a manager that Session.close has
  // already destroyed.
  self->link_ = std::make_shared<std::atomic<Device*>>(device);
  auto host = std::make_unique<HostDevice>(self->link_);
  Device* own_device = host.get();
  self->devices_ = std::make_unique<StaticDeviceMgr>(std::move(host));
  self->functions_ = std::make_unique<FunctionLibraryDefinition>(
      *runtime->GetFunctionLibraryDefinition());
  // As many threads as the pool that training would iterate in, so that AUTOTUNE has
  // the same budget; but our own, since the op's may be the one that waits for us.
  const int runner_threads =
      threads > 0 ? threads
                  : tensorflow::data::GetRunnerThreadpoolSizeFromOpKernelContext(ctx);
  self->runner_ = std::make_unique<tensorflow::thread::ThreadPool>(
      Env::Default(), tensorflow::ThreadOptions(), "ipufeed_runner", runner_threads);
  self->runtime_ = std::make_unique<ProcessFunctionLibraryRuntime>(
      self->devices_.get(), Env::Default(), /*config=*/nullptr,
      runtime->graph_def_version(), self->functions_.get(), OptimizerOptions{},
      self->runner_.get());  // for functions that are called without a runner
  auto* own_runtime = self->runtime_->GetFLR(device->name());
  self->handles_ = std::make_unique<FunctionHandleCache>(own_runtime);
  self->threads_ = std::make_unique<tensorflow::data::UnboundedThreadPool>(
      Env::Default(), "ipufeed_dataset");

  IteratorContext::Params params(ctx);
  params.collective_executor = nullptr;  // belongs to the step, which ends before we do
  params.cancellation_manager = self->cancellation_.get();
  params.flr = own_runtime;
  params.function_handle_cache = self->handles_.get();
  params.resource_mgr = &self->resources_;
  params.thread_factory = self->threads_->get_thread_factory();
  params.thread_pool = self->threads_.get();
  params.runner = [pool = self->runner_.get()](std::function<void()> work) {
    pool->Schedule(std::move(work));
  };
  params.runner_threadpool_size = runner_threads;
  params.allocator_getter = [own_device](tensorflow::AllocatorAttributes attributes) {
    return own_device->GetAllocator(attributes);
  };
  params.warm_start = dataset->options().warm_start();

  dataset->Ref();
  self->dataset_.reset(dataset);
  if (finalize) {
    DatasetBase* finalized = nullptr;
    TF_RETURN_IF_ERROR(tensorflow::data::FinalizeDataset(ctx, dataset, &finalized));
    self->finalized_.reset(finalized);
  }
  self->params_ = std::make_unique<IteratorContext::Params>(std::move(params));
  self->modelled_ = modelled;
  TF_RETURN_IF_ERROR(self->restart());
  *out = std::move(self);
  return absl::OkStatus();
}

DatasetIterator::DatasetIterator()
    : cancellation_(std::make_shared<tensorflow::CancellationManager>()),
      cancelled_(cancellation_->get_cancellation_token()) {
  cancellation_->RegisterCallback(cancelled_, [] {});
}

DatasetIterator::~DatasetIterator() {
  cancel();
  // Waits for the callbacks, if another thread is cancelling: they are the iterators'.
  cancellation_->DeregisterCallback(cancelled_);
}

absl::Status DatasetIterator::get_next(std::vector<tensorflow::Tensor>* components,
                                       bool* end_of_dataset) {
  components->clear();
  *end_of_dataset = false;
  return iterator_->GetNext(context_.get(), components, end_of_dataset);
}

absl::Status DatasetIterator::restart() {
  iterator_.reset();
  // A context of its own for each pass: the iterator leaves AUTOTUNE's model in it, and
  // a model of an earlier pass sleeps longer and longer, up to a minute, before it
  // ends.
  if (modelled_) params_->model = std::make_shared<tensorflow::data::model::Model>();
  context_ = std::make_unique<IteratorContext>(*params_);
  DatasetBase* source = finalized_ ? finalized_.get() : dataset_.get();
  return source->MakeIterator(context_.get(), /*parent=*/nullptr, "Iterator",
                              &iterator_);
}

}  // namespace ipufeed
