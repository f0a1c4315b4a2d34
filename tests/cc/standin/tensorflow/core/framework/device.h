// What HostDevice overrides. No test makes a device: the sources under test name it,
// and hold a pointer to one.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"

namespace Eigen {
struct ThreadPoolDevice;
}

namespace tensorflow {

namespace thread {
class ThreadPool;
}
class Allocator;
class DeviceContext;
class TensorProto;
struct AllocatorAttributes {};
using StatusCallback = std::function<void(const absl::Status&)>;

class DeviceBase {
 public:
  struct CpuWorkerThreads;
  virtual ~DeviceBase() = default;
  virtual const DeviceBase* UnderlyingDevice() const { return this; }
  virtual DeviceBase* UnderlyingDevice() { return this; }
  virtual const CpuWorkerThreads* tensorflow_cpu_worker_threads() const = 0;
  virtual bool has_eigen_cpu_device() const = 0;
  virtual const Eigen::ThreadPoolDevice* eigen_cpu_device() = 0;
  virtual thread::ThreadPool* tensorflow_device_thread_pool() = 0;
  virtual Allocator* GetAllocator(AllocatorAttributes attributes) = 0;
  virtual absl::Status MakeTensorFromProto(const TensorProto& proto,
                                           AllocatorAttributes attributes,
                                           Tensor* tensor) = 0;
  virtual void CopyTensorInSameDevice(const Tensor* from, Tensor* to,
                                      const DeviceContext* context,
                                      StatusCallback done) = 0;
};

class OpKernel;
class AsyncOpKernel;
class OpKernelContext;

class Device : public DeviceBase {
 public:
  virtual void Compute(OpKernel* kernel, OpKernelContext* context) = 0;
  virtual void ComputeAsync(AsyncOpKernel* kernel, OpKernelContext* context,
                            std::function<void()> done) = 0;
  virtual absl::Status Sync() = 0;
  virtual ResourceMgr* resource_manager() = 0;
  virtual bool IsLocal() const { return true; }
};

}  // namespace tensorflow
