#include "device/tensor_memory.h"

#include <malloc.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "core/spare_memory.h"

namespace ipufeed {
namespace {

// Smaller ones are found again by malloc without the kernel.
constexpr std::size_t kKeptBytes = 1 << 20;

class TensorMemory : public tensorflow::Allocator {
 public:
  explicit TensorMemory(tensorflow::Allocator* stock) : stock_(stock) {}

  std::string Name() override { return stock_->Name(); }

  void* AllocateRaw(std::size_t alignment, std::size_t bytes) override {
    if (bytes >= kKeptBytes && alignment <= SpareMemory::kAlignment) {
      if (auto found = SpareMemory::get().find(bytes)) return found.release();
    }
    void* const memory = stock_->AllocateRaw(alignment, bytes);
    if (memory != nullptr || bytes == 0) return memory;
    SpareMemory::get().clear();
    return stock_->AllocateRaw(alignment, bytes);
  }

  void DeallocateRaw(void* memory) override {
    if (memory != nullptr && malloc_usable_size(memory) >= kKeptBytes) {
      SpareMemory::get().give(SpareMemory::Bytes(static_cast<std::byte*>(memory)));
    } else {
      stock_->DeallocateRaw(memory);
    }
  }

  std::size_t AllocatedSizeSlow(const void* memory) const override {
    return stock_->AllocatedSizeSlow(memory);
  }

  std::optional<tensorflow::AllocatorStats> GetStats() override {
    return stock_->GetStats();
  }

  bool ClearStats() override { return stock_->ClearStats(); }

  tensorflow::AllocatorMemoryType GetMemoryType() const override {
    return stock_->GetMemoryType();
  }

 private:
  tensorflow::Allocator* const stock_;
};

}  // namespace

tensorflow::Allocator* tensor_memory() {
  static auto* const memory = []() -> tensorflow::Allocator* {
    tensorflow::Allocator* const stock = tensorflow::cpu_allocator();
    // Another one than malloc's, as oneDNN has it, cannot share blocks with the cache.
    if (stock->Name() != "cpu") return stock;
    return new TensorMemory(stock);
  }();
  return memory;
}

}  // namespace ipufeed
