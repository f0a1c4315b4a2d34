#include "xla/compile/program_memory.h"

#include "device/tensor_memory.h"
#include "xla/stream_executor/integrations/tf_allocator_adapter.h"
#include "xla/stream_executor/platform_manager.h"

namespace ipufeed {

stream_executor::DeviceAddressAllocator* program_memory() {
  static auto* const memory = new stream_executor::TfAllocatorAdapter(
      tensor_memory(),
      stream_executor::PlatformManager::PlatformWithName("Host").value());
  return memory;
}

}  // namespace ipufeed
