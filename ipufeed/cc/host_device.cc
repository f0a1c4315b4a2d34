#include "host_device.h"

#include <string>
#include <utility>

#include "tensorflow/core/common_runtime/device_factory.h"
#include "tensorflow/core/public/session_options.h"

namespace ipufeed {
namespace {

using tensorflow::Device;

// Never destroyed: late code may use it until the process ends.
Device* spare_device() {
  static Device* device =
      tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(),
                                           "/job:localhost/replica:0/task:0")
          .release();
  return device;
}

}  // namespace

HostDevice::HostDevice(const HostLink& link)
    : Device(link->load()->env(), link->load()->attributes()), link_(link) {}

void HostDevice::detach(const HostLink& link) { link->store(spare_device()); }

Device* HostDevice::device() const { return link_->load(std::memory_order_acquire); }

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

}  // namespace ipufeed
