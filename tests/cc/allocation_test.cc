// What happens to a feed when memory runs out while it is made: an exception, and
// nothing left behind.

#include <cstdlib>
#include <new>

#include "check.h"
#include "core/feed.h"

namespace {

int until_failure = -1;  // allocations until one fails; below 0 for never
int alive = 0;

}  // namespace

void* operator new(std::size_t size) {
  if (until_failure >= 0 && until_failure-- == 0) throw std::bad_alloc();
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  ++alive;
  return memory;
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  if (until_failure >= 0 && until_failure-- == 0) throw std::bad_alloc();
  const std::size_t align = static_cast<std::size_t>(alignment);
  void* memory = std::aligned_alloc(align, (size + align - 1) / align * align);
  if (memory == nullptr) throw std::bad_alloc();
  ++alive;
  return memory;
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return operator new(size, alignment);
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr) --alive;
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept {
  operator delete(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
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

using namespace ipufeed;

TEST(a_feed_that_cannot_be_made_leaves_nothing) {
  const int before = alive;
  int failures = 0;
  for (int n = 0;; ++n) {
    until_failure = n;
    try {
      Feed<int, int> feed(64);
      until_failure = -1;
      asm volatile("" : : "r"(&feed) : "memory");  // or the compiler needs no memory
      CHECK(feed.push(7) == FeedOutcome::kDone);
      break;
    } catch (const std::bad_alloc&) {
      ++failures;
      CHECK_EQ(alive, before);
    }
  }
  CHECK(failures > 0);
  CHECK_EQ(alive, before);
}

TEST(a_feed_at_work_allocates_nothing) {
  Feed<int, int> feed(64);
  until_failure = 0;
  for (int i = 0; i < 1000; ++i) {
    CHECK(feed.push(int{i}) == FeedOutcome::kDone);
    int got = -1;
    CHECK(feed.pop(&got) == FeedOutcome::kDone);
    CHECK_EQ(got, i);
  }
  until_failure = -1;
}
