// Memory order. A kernel counts itself and then reads the device; detach() replaces the
// device and then reads the counts. All four are seq_cst: a kernel that detach() does
// not see has seen the new device.

#include "data/host_device.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/mutex.h"
#include "tensorflow/core/common_runtime/device_factory.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/public/session_options.h"

namespace ipufeed {
namespace {

using tensorflow::Device;
using tensorflow::OpKernel;
using tensorflow::OpKernelContext;

// How long the destructor of a device waits for the kernels that use it. They take
// microseconds; one in which a dataset blocks must not block Session.close without a
// limit.
constexpr std::int64_t kKernelsNs = 10'000'000'000;

// Never destroyed: late code may use it until the process ends.
Device* spare_device() {
  static Device* device =
      tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(),
                                           "/job:localhost/replica:0/task:0")
          .release();
  return device;
}

// PyFunc, PyFuncStateless and EagerPyFunc.
bool calls_python(const OpKernel& kernel) {
  return absl::StrContains(kernel.type_string(), "PyFunc");
}

// Of this thread among the counts of running kernels.
std::size_t own_count() {
  static std::atomic<std::size_t> threads{0};
  thread_local const std::size_t own = threads.fetch_add(1, std::memory_order_relaxed);
  return own;
}

// In the device's resource manager.
std::string host_name(const Device& device) {
  return absl::StrCat("ipufeed_host", device.name());
}

absl::Status gone() {
  return absl::CancelledError(
      "The session that the dataset was made in has been closed, so its functions "
      "cannot run on.");
}

}  // namespace

HostDevice::HostDevice(Device* device)
    : Device(device->env(), device->attributes()), device_(device) {}

void HostDevice::detach() {
  {
    MutexLock lock(attached_mutex_);
    device_.store(spare_device());
  }
  if (!wait_for_kernels(kKernelsNs)) {
    LOG(ERROR) << "A kernel of a dataset's function still runs " << kKernelsNs / 1e9
               << " s after its device " << name() << " was closed.";
  }
}

// Each count must be 0 once: kernels that begin now see the spare device and fail.
bool HostDevice::wait_for_kernels(std::int64_t timeout_ns) const {
  const std::int64_t deadline = now_ns() + timeout_ns;
  for (const Running& each : running_) {
    while (each.kernels.load() != 0) {
      if (now_ns() >= deadline) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  return true;
}

// [1] the sequentially consistent store of detach() -> device(): the spare device that
// the pointer leads to is complete.
Device* HostDevice::device() const { return device_.load(std::memory_order_acquire); }

bool HostDevice::detached() const { return device_.load() == spare_device(); }

bool HostDevice::find_host(tensorflow::core::RefCountPtr<Host>* host) const {
  tensorflow::ResourceMgr* resources = device()->resource_manager();
  Host* found = nullptr;
  const bool exists =
      resources->Lookup(resources->default_container(), host_name(*this), &found).ok();
  host->reset(found);
  return exists;
}

void HostDevice::Compute(OpKernel* kernel, OpKernelContext* context) {
  // An asynchronous kernel, run to its end here, calls a function or waits: the kernels
  // of its function are counted by themselves.
  if (calls_python(*kernel) || kernel->AsAsync() != nullptr) {
    if (detached()) return context->SetStatus(gone());
    return kernel->Compute(context);
  }
  auto& kernels = running_[own_count() % running_.size()].kernels;
  kernels.fetch_add(1);
  if (detached()) {
    context->SetStatus(gone());
  } else {
    kernel->Compute(context);
  }
  kernels.fetch_sub(1);
}

void HostDevice::ComputeAsync(tensorflow::AsyncOpKernel* kernel,
                              OpKernelContext* context,
                              tensorflow::AsyncOpKernel::DoneCallback done) {
  if (detached()) {
    context->SetStatus(gone());
    return done();
  }
  kernel->ComputeAsync(context, std::move(done));
}

const tensorflow::DeviceBase* HostDevice::UnderlyingDevice() const {
  return device()->UnderlyingDevice();
}
tensorflow::DeviceBase* HostDevice::UnderlyingDevice() {
  return device()->UnderlyingDevice();
}
const tensorflow::DeviceBase::CpuWorkerThreads*
HostDevice::tensorflow_cpu_worker_threads() const {
  return device()->tensorflow_cpu_worker_threads();
}
bool HostDevice::has_eigen_cpu_device() const {
  return device()->has_eigen_cpu_device();
}
const Eigen::ThreadPoolDevice* HostDevice::eigen_cpu_device() {
  return device()->eigen_cpu_device();
}
tensorflow::thread::ThreadPool* HostDevice::tensorflow_device_thread_pool() {
  return device()->tensorflow_device_thread_pool();
}
tensorflow::Allocator* HostDevice::GetAllocator(tensorflow::AllocatorAttributes attr) {
  return device()->GetAllocator(attr);
}
absl::Status HostDevice::MakeTensorFromProto(const tensorflow::TensorProto& proto,
                                             tensorflow::AllocatorAttributes attributes,
                                             tensorflow::Tensor* tensor) {
  return device()->MakeTensorFromProto(proto, attributes, tensor);
}
void HostDevice::CopyTensorInSameDevice(const tensorflow::Tensor* from,
                                        tensorflow::Tensor* to,
                                        const tensorflow::DeviceContext* context,
                                        tensorflow::StatusCallback done) {
  device()->CopyTensorInSameDevice(from, to, context, std::move(done));
}
absl::Status HostDevice::Sync() { return device()->Sync(); }
tensorflow::ResourceMgr* HostDevice::resource_manager() {
  return device()->resource_manager();
}

// About 1 KiB for each session that had a feeder.
struct Kept {
  Mutex mutex;
  std::list<std::unique_ptr<tensorflow::StaticDeviceMgr>> devices
      IPUFEED_GUARDED_BY(mutex);

  static Kept& get() {
    static auto* kept = new Kept;
    return *kept;
  }
};

Host::Host(Device* device) {
  Kept::get();  // made here: a destructor must not need memory
  auto host = std::make_unique<HostDevice>(device);
  device_ = host.get();
  devices_.push_back(std::make_unique<tensorflow::StaticDeviceMgr>(std::move(host)));
}

Host::~Host() {
  device_->detach();
  Kept& kept = Kept::get();
  MutexLock lock(kept.mutex);
  kept.devices.splice(kept.devices.end(), devices_);
}

absl::Status Host::find(OpKernelContext* ctx,
                        tensorflow::core::RefCountPtr<Host>* out) {
  auto* runtime = ctx->function_library();
  if (runtime == nullptr) {
    return absl::InternalError("the op has no function library, so it cannot iterate.");
  }
  Device* device = runtime->device();
  auto* resources = ctx->resource_manager();
  Host* host = nullptr;
  TF_RETURN_IF_ERROR(resources->LookupOrCreate<Host>(resources->default_container(),
                                                     host_name(*device), &host,
                                                     [device](Host** created) {
                                                       *created = new Host(device);
                                                       return absl::OkStatus();
                                                     }));
  out->reset(host);
  return absl::OkStatus();
}

}  // namespace ipufeed
