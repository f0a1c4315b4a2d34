// What is promised of memory that is used again: the same block for the same size, and
// never more of it than the bound.

#include "core/spare_memory.h"

#include "check.h"

using ipufeed::SpareMemory;

namespace {

constexpr std::size_t kSize = SpareMemory::kLarge;

}  // namespace

TEST(a_block_is_used_again_for_as_many_bytes_as_it_has) {
  SpareMemory spare;
  auto first = spare.take(kSize);
  const auto* const place = first.get();
  spare.give(std::move(first), kSize);
  CHECK_EQ(spare.kept(), kSize);
  const auto other = spare.take(kSize + 1);
  CHECK(other.get() != place);
  const auto again = spare.take(kSize);
  CHECK(again.get() == place);
  CHECK_EQ(spare.kept(), 0u);
}

TEST(small_ones_and_none_are_not_kept) {
  SpareMemory spare;
  spare.give(spare.take(kSize - 1), kSize - 1);
  spare.give(nullptr, kSize);
  spare.give(spare.take(0), 0);
  CHECK_EQ(spare.kept(), 0u);
}

TEST(the_oldest_are_freed_above_the_bound) {
  // Nothing is written, so that the kernel has no page of it.
  SpareMemory spare;
  const std::size_t half = SpareMemory::kMost / 2;
  const auto give = [&spare](std::size_t size) {
    spare.give(SpareMemory::Bytes(new std::byte[size]), size);
  };
  give(half);
  give(half - 1);
  CHECK_EQ(spare.kept(), 2 * half - 1);
  give(half - 2);  // too much of all: the first is freed
  CHECK_EQ(spare.kept(), 2 * half - 3);
  (void)spare.take(half);
  CHECK_EQ(spare.kept(), 2 * half - 3);
  give(SpareMemory::kMost + 1);  // frees no other
  CHECK_EQ(spare.kept(), 2 * half - 3);
}

TEST(clear_frees_all) {
  SpareMemory spare;
  spare.give(spare.take(kSize), kSize);
  spare.clear();
  CHECK_EQ(spare.kept(), 0u);
  const auto usable = spare.take(kSize);
  CHECK(usable != nullptr);
}
