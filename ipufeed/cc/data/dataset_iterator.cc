#include "data/dataset_iterator.h"

#include <functional>
#include <utility>

#include "core/mutex.h"
#include "data/host_device.h"
#include "data/model_thread.h"
#include "tensorflow/core/data/dataset_utils.h"
#include "tensorflow/core/data/root_dataset.h"
#include "tensorflow/core/platform/threadpool.h"

namespace ipufeed {

using tensorflow::Env;
using tensorflow::FunctionHandleCache;
using tensorflow::FunctionLibraryDefinition;
using tensorflow::OpKernelContext;
using tensorflow::OptimizerOptions;
using tensorflow::ProcessFunctionLibraryRuntime;
using tensorflow::data::DatasetBase;
using tensorflow::data::IteratorContext;
using tensorflow::data::model::Model;
using tensorflow::thread::ThreadPool;

// The threads that functions run on. What a function has started may run work after the
// iterator is destroyed (TensorFlow's MultiDeviceIterator keeps the runner of the
// function that has read from it first): it then gets threads of the environment.
class DatasetIterator::Runner {
 public:
  explicit Runner(int threads)
      : pool_(std::make_unique<ThreadPool>(Env::Default(), tensorflow::ThreadOptions(),
                                           "ipufeed_runner", threads)),
        open_(std::make_shared<Open>()) {
    open_->pool = pool_.get();
  }
  ~Runner() {
    {
      WriterLock lock(open_->mutex);
      open_->pool = nullptr;
    }
    pool_.reset();  // not under the lock: it runs the work that it still has
  }

  ThreadPool* pool() const { return pool_.get(); }

  std::function<void(std::function<void()>)> function() const {
    return [open = open_](std::function<void()> work) {
      ReaderLock lock(open->mutex);
      if (open->pool != nullptr) {
        open->pool->Schedule(std::move(work));
      } else {
        Env::Default()->SchedClosure(std::move(work));
      }
    };
  }

 private:
  struct Open {
    SharedMutex mutex;
    ThreadPool* pool IPUFEED_GUARDED_BY(mutex) =
        nullptr;  // null once the iterator has gone
  };

  std::unique_ptr<ThreadPool> pool_;
  const std::shared_ptr<Open> open_;
};

// The threads of a dataset. TensorFlow's thread that models a pipeline logs a warning
// if the iterator is cancelled before it has begun, as that of a queue may be that ends
// at once: it does not begin then.
class DatasetThreads : public tensorflow::ThreadFactory {
 public:
  DatasetThreads(std::shared_ptr<tensorflow::ThreadFactory> threads,
                 std::shared_ptr<tensorflow::CancellationManager> cancellation,
                 std::function<std::shared_ptr<Model>()> model)
      : threads_(std::move(threads)),
        cancellation_(std::move(cancellation)),
        model_(std::move(model)) {}

  std::unique_ptr<tensorflow::Thread> StartThread(const std::string& name,
                                                  std::function<void()> work) override {
    if (name != kModelThread) return threads_->StartThread(name, std::move(work));
    auto thread = threads_->StartThread(
        name, [cancellation = cancellation_, work = std::move(work)] {
          if (!cancellation->IsCancelled()) work();
        });
    return woken_at_end(std::move(thread), model_);
  }

 private:
  static constexpr std::string_view kModelThread = "tf_data_model";

  const std::shared_ptr<tensorflow::ThreadFactory> threads_;
  const std::shared_ptr<tensorflow::CancellationManager> cancellation_;
  const std::function<std::shared_ptr<Model>()> model_;
};

absl::Status DatasetIterator::create(OpKernelContext* ctx, DatasetBase* dataset,
                                     bool finalize,
                                     std::unique_ptr<DatasetIterator>* out, int threads,
                                     bool modelled) {
  tensorflow::core::RefCountPtr<Host> host;
  TF_RETURN_IF_ERROR(Host::find(ctx, &host));
  HostDevice* device = host->device();
  auto* runtime = ctx->function_library();
  std::unique_ptr<DatasetIterator> self(new DatasetIterator);
  self->host_ = device;
  self->functions_ = std::make_unique<FunctionLibraryDefinition>(
      *runtime->GetFunctionLibraryDefinition());
  // As many threads as the pool that training would iterate in, so that AUTOTUNE has
  // the same budget; but our own, since the op's may be the one that waits for us.
  const int runner_threads =
      threads > 0 ? threads
                  : tensorflow::data::GetRunnerThreadpoolSizeFromOpKernelContext(ctx);
  self->runner_ = std::make_unique<Runner>(runner_threads);
  self->runtime_ = std::make_unique<ProcessFunctionLibraryRuntime>(
      host->devices(), Env::Default(), /*config=*/nullptr, runtime->graph_def_version(),
      self->functions_.get(), OptimizerOptions{},
      self->runner_->pool());  // for functions that are called without a runner
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
  params.thread_factory = std::make_shared<DatasetThreads>(
      self->threads_->get_thread_factory(), self->cancellation_,
      [raw = self.get()] { return raw->context_->model(); });
  params.thread_pool = self->threads_.get();
  params.runner = self->runner_->function();
  params.runner_threadpool_size = runner_threads;
  params.allocator_getter = [device](tensorflow::AllocatorAttributes attributes) {
    return device->GetAllocator(attributes);
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
  iterator_.reset();  // may wait for Python code inside the dataset
  context_.reset();
  const bool destroyed = host_->while_attached([this] {
    finalized_.reset();
    dataset_.reset();
  });
  if (destroyed) return;
  // The resource manager that their destructors would use was destroyed with its
  // device.
  static_cast<void>(finalized_.release());
  static_cast<void>(dataset_.release());
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
  if (modelled_) params_->model = std::make_shared<Model>();
  context_ = std::make_unique<IteratorContext>(*params_);
  DatasetBase* source = finalized_ ? finalized_.get() : dataset_.get();
  return source->MakeIterator(context_.get(), /*parent=*/nullptr, "Iterator",
                              &iterator_);
}

}  // namespace ipufeed
