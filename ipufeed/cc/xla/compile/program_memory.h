// The memory that compiled programs compute in and leave their results in: that of
// tensors (device/tensor_memory.h), as XLA asks for it.
#pragma once

#include "xla/stream_executor/device_address_allocator.h"

namespace ipufeed {

// Any thread.
stream_executor::DeviceAddressAllocator* program_memory();

}  // namespace ipufeed
