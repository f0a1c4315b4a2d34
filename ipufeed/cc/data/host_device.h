// The device that a dataset's functions run on, and that may go before they have ended.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "core/clock.h"
#include "core/mutex.h"
#include "core/wait.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace ipufeed {

class Host;

// Forwards to the device of an op: its memory, its threads, its resources. When that
// device is destroyed (Session.close) while Python code inside the dataset is still
// running, which cannot be interrupted, detach() puts another one behind it, and from
// then on each kernel fails with Cancelled: TensorFlow's executor reads the resource
// manager once for a whole function, so a later kernel would use that of the device
// that has gone. No frame of the device itself is on the stack during a kernel: kernels
// are called from here.
//
// Never destroyed: what a dataset's functions have started may hold it after the
// dataset's iterator is destroyed. TensorFlow's MultiDeviceIterator, for one, allocates
// on the device of the function that has read from it first.
//
// Threads: any.
class HostDevice : public tensorflow::Device {
 public:
  explicit HostDevice(tensorflow::Device* device);

  // A process-wide CPU device takes the place of the one that is about to go. Returns
  // when no kernel uses that one, but for kernels that call Python: these may take any
  // time, and use only the process's memory.
  void detach();

  void Compute(tensorflow::OpKernel* kernel,
               tensorflow::OpKernelContext* context) override;
  void ComputeAsync(tensorflow::AsyncOpKernel* kernel,
                    tensorflow::OpKernelContext* context,
                    tensorflow::AsyncOpKernel::DoneCallback done) override;

  const DeviceBase* UnderlyingDevice() const override;
  DeviceBase* UnderlyingDevice() override;
  const CpuWorkerThreads* tensorflow_cpu_worker_threads() const override;
  bool has_eigen_cpu_device() const override;
  const Eigen::ThreadPoolDevice* eigen_cpu_device() override;
  tensorflow::thread::ThreadPool* tensorflow_device_thread_pool() override;
  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes attr) override;
  absl::Status MakeTensorFromProto(const tensorflow::TensorProto& proto,
                                   tensorflow::AllocatorAttributes attributes,
                                   tensorflow::Tensor* tensor) override;
  void CopyTensorInSameDevice(const tensorflow::Tensor* from, tensorflow::Tensor* to,
                              const tensorflow::DeviceContext* context,
                              tensorflow::StatusCallback done) override;
  absl::Status Sync() override;
  tensorflow::ResourceMgr* resource_manager() override;

  // Runs `work` while the device behind this cannot go: a dataset's destructor deletes
  // its cache and its counters from the device's resource manager. False, without
  // having run it, if the device is destroyed, or if its resources are being freed.
  template <class Work>
  bool while_attached(Work&& work);

  bool IsLocal() const override { return true; }

 private:
  // Kernels that run now, counted apart by thread: a line that all threads write would
  // cost more than many kernels.
  struct alignas(kCacheLine) Running {
    std::atomic<std::int64_t> kernels{0};
  };

  tensorflow::Device* device() const;
  bool detached() const;
  bool wait_for_kernels(std::int64_t timeout_ns) const;
  // False when the resource manager is being cleared: it
  // takes all resources out before it destroys the first.
  bool find_host(tensorflow::core::RefCountPtr<Host>* host) const
      IPUFEED_REQUIRES(attached_mutex_);

  Mutex attached_mutex_;  // held while device_ is replaced
  std::atomic<tensorflow::Device*> device_;
  std::array<Running, 8> running_;
};

// What the functions of all datasets of one device run on. Lives in that device's
// resource manager and so ends with it: then detaches the HostDevice, which stays.
class Host : public tensorflow::ResourceBase {
 public:
  explicit Host(tensorflow::Device* device);
  ~Host() override;

  // That of the op's device; made when there is none.
  static absl::Status find(tensorflow::OpKernelContext* ctx,
                           tensorflow::core::RefCountPtr<Host>* out);

  // Both for the life of the process.
  HostDevice* device() const { return device_; }
  const tensorflow::DeviceMgr* devices() const { return devices_.front().get(); }

  std::string DebugString() const override { return "the host of a device's datasets"; }

 private:
  HostDevice* device_;
  // With one of the session's, ~FunctionHandleCache would look the device up in a
  // manager that Session.close has already destroyed.
  // One; a list, so that the destructor hands it on without memory of its own.
  std::list<std::unique_ptr<tensorflow::StaticDeviceMgr>> devices_;
};

template <class Work>
bool HostDevice::while_attached(Work&& work) {
  // Outlives the lock: with the last reference ~Host detaches, which takes the lock.
  tensorflow::core::RefCountPtr<Host> host;
  MutexLock lock(attached_mutex_);
  if (detached() || !find_host(&host)) return false;
  work();
  return true;
}

}  // namespace ipufeed
