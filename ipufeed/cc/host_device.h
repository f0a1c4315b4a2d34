// The device that a dataset's functions run on, and that may go before they have ended.
#pragma once

#include <atomic>
#include <memory>

#include "tensorflow/core/framework/device.h"

namespace ipufeed {

// Which device stands behind a HostDevice. Shared with who may have to change that.
using HostLink = std::shared_ptr<std::atomic<tensorflow::Device*>>;

// Forwards to the device of an op: its memory, its threads, its resources. When that
// device goes (Session.close) while Python code inside the dataset is still running,
// which nobody can interrupt, detach() puts another one behind it, on which the late
// code ends without harm. No frame of the device itself is on the stack meanwhile:
// kernels are called from here.
//
// Threads: any.
class HostDevice : public tensorflow::Device {
 public:
  // link: to `device`, which names it.
  explicit HostDevice(const HostLink& link);

  // A process-wide CPU device takes the place of the one that is about to go.
  static void detach(const HostLink& link);

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
  bool IsLocal() const override { return true; }

 private:
  tensorflow::Device* device() const;

  const HostLink link_;
};

}  // namespace ipufeed
