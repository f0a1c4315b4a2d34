// The n-th allocation fails: of `new` with std::bad_alloc, of a tensor's buffer with a
// null pointer, as TensorFlow's CPU allocator says it, of aligned_alloc with one, too.
//
// Only allocations of armed threads count and fail, so that a test's own do not.
#pragma once

#include <atomic>
#include <cstddef>

namespace standin {

// Of armed threads: allocations until one fails; below 0 for none.
extern std::atomic<long> until_failure;

// Allocations of tensors and by `new` that are alive, in all threads.
extern std::atomic<long> alive;

// Arms the thread while it lives. Nests.
class Armed {
 public:
  explicit Armed(bool armed = true);
  ~Armed();
  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;

 private:
  const bool outer_;
};

// Memory of a tensor, aligned as TensorFlow's; null for no memory.
void* allocate(std::size_t bytes);
void deallocate(void* memory);

}  // namespace standin
