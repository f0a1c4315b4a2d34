// What is promised of memory that is used again: a block for a size that nearly fills
// it, and never more than the bounds.

#include "core/spare_memory.h"

#include <malloc.h>

#include <cstdint>
#include <vector>

#include "check.h"

using ipufeed::SpareMemory;

namespace {

constexpr std::size_t kSize = SpareMemory::kLarge;

}  // namespace

TEST(a_block_is_used_again_for_a_size_that_nearly_fills_it) {
  SpareMemory spare;
  auto first = spare.take(kSize);
  const auto* const place = first.get();
  CHECK_EQ(reinterpret_cast<std::uintptr_t>(place) % SpareMemory::kAlignment, 0u);
  const std::size_t usable = malloc_usable_size(first.get());
  CHECK(usable >= kSize);
  spare.give(std::move(first));
  CHECK_EQ(spare.kept(), usable);
  CHECK(spare.find(usable + 1) == nullptr);
  const auto larger = spare.take(2 * kSize);
  CHECK(larger.get() != place);
  const auto again = spare.take(kSize);
  CHECK(again.get() == place);
  CHECK_EQ(spare.kept(), 0u);
  CHECK(spare.find(kSize) == nullptr);
}

TEST(a_block_of_which_an_eighth_would_be_unused_is_kept) {
  SpareMemory spare;
  auto first = spare.take(16 * kSize);
  const std::size_t usable = malloc_usable_size(first.get());
  const auto* const place = first.get();
  spare.give(std::move(first));
  CHECK(spare.find(usable - usable / 8) == nullptr);
  const auto found = spare.find(usable - usable / 8 + 1);
  CHECK(found.get() == place);
}

TEST(small_ones_and_none_are_not_kept) {
  SpareMemory spare;
  spare.give(spare.take(kSize / 2));
  spare.give(nullptr);
  CHECK(spare.take(0) == nullptr);
  CHECK_EQ(spare.kept(), 0u);
}

TEST(the_oldest_are_freed_above_the_bound_of_bytes) {
  // Nothing is written, so that the kernel has no page of it.
  SpareMemory spare;
  const std::size_t most = SpareMemory::kMost / 2 - (1 << 20);
  const auto give = [&spare](std::size_t size) {
    auto block = SpareMemory().take(size);
    const std::size_t usable = malloc_usable_size(block.get());
    spare.give(std::move(block));
    return usable;
  };
  const std::size_t first = give(most);
  const std::size_t second = give(most / 2);
  CHECK_EQ(spare.kept(), first + second);
  const std::size_t third = give(most);  // too much of all: the first is freed
  CHECK_EQ(spare.kept(), second + third);
  give(SpareMemory::kMost + 1);  // frees no other
  CHECK_EQ(spare.kept(), second + third);
}

TEST(the_oldest_are_freed_above_the_bound_of_blocks) {
  SpareMemory spare;
  std::vector<SpareMemory::Bytes> blocks;
  for (std::size_t i = 0; i <= SpareMemory::kMostBlocks; ++i) {
    blocks.push_back(spare.take(kSize));
  }
  std::size_t all = 0;
  for (auto& each : blocks) all += malloc_usable_size(each.get());
  const std::size_t first = malloc_usable_size(blocks.front().get());
  for (auto& each : blocks) spare.give(std::move(each));
  CHECK_EQ(spare.kept(), all - first);
}

TEST(clear_frees_all) {
  SpareMemory spare;
  spare.give(spare.take(kSize));
  CHECK(spare.kept() >= kSize);
  spare.clear();
  CHECK_EQ(spare.kept(), 0u);
  const auto usable = spare.take(kSize);
  CHECK(usable != nullptr);
}
