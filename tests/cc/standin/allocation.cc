#include "allocation.h"

#include <cstdlib>
#include <new>

namespace standin {

std::atomic<long> until_failure{-1};
std::atomic<long> alive{0};

namespace {

thread_local bool is_armed = false;

// Relaxed: a test sets the number before it starts the threads that are armed.
bool fails() {
  return is_armed && until_failure.load(std::memory_order_relaxed) >= 0 &&
         until_failure.fetch_sub(1, std::memory_order_relaxed) == 0;
}

// Not by aligned_alloc, which is replaced below.
void* aligned(std::size_t align, std::size_t bytes) {
  void* memory = nullptr;
  return posix_memalign(&memory, align, bytes) == 0 ? memory : nullptr;
}

void* allocate_aligned(std::size_t align, std::size_t bytes) {
  if (fails()) return nullptr;
  void* memory = aligned(align, bytes);
  if (memory != nullptr) alive.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

Armed::Armed(bool armed) : outer_(is_armed) { is_armed = armed; }
Armed::~Armed() { is_armed = outer_; }

void* allocate(std::size_t bytes) { return allocate_aligned(64, bytes); }

void deallocate(void* memory) {
  if (memory != nullptr) alive.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace standin

// That of the memory that is kept for reuse (core/spare_memory.h), which is not
// counted: it is freed without a replacement.
extern "C" void* aligned_alloc(std::size_t align, std::size_t size) {
  return standin::fails() ? nullptr : standin::aligned(align, size);
}

void* operator new(std::size_t size) {
  return standin::or_throw(standin::allocate_aligned(alignof(std::max_align_t), size));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return standin::or_throw(
      standin::allocate_aligned(static_cast<std::size_t>(alignment), size));
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return operator new(size, alignment);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return standin::allocate_aligned(alignof(std::max_align_t), size);
}
void* operator new(std::size_t size, std::align_val_t alignment,
                   const std::nothrow_t&) noexcept {
  return standin::allocate_aligned(static_cast<std::size_t>(alignment), size);
}
void operator delete(void* memory) noexcept { standin::deallocate(memory); }
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept {
  operator delete(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  operator delete(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  operator delete(memory);
}
void operator delete[](void* memory) noexcept { operator delete(memory); }
void operator delete[](void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept {
  operator delete(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  operator delete(memory);
}
