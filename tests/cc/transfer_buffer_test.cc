// What the place of the copies promises: room that is bounded, and all that was
// written.

#include "core/transfer_buffer.h"

#include <string>
#include <vector>

#include "check.h"

using ipufeed::TransferBuffer;

namespace {

std::vector<char> noise(std::size_t bytes) {
  check::Random random(check::seed());
  std::vector<char> numbers(bytes);
  for (char& number : numbers) number = static_cast<char>(random.next());
  return numbers;
}

}  // namespace

TEST(there_is_as_much_room_as_was_asked_for_and_never_less_than_before) {
  TransferBuffer buffer;
  buffer.reserve(0);
  CHECK_EQ(buffer.size(), 0u);
  buffer.reserve(1000);
  CHECK_EQ(buffer.size(), 1000u);
  buffer.reserve(10);
  CHECK_EQ(buffer.size(), 1000u);
}

TEST(sizes_that_creep_up_grow_it_a_few_times_only) {
  TransferBuffer buffer;
  int growths = 0;
  for (std::size_t bytes = 1000; bytes <= 1'000'000; bytes += 1000) {
    const std::size_t before = buffer.size();
    buffer.reserve(bytes);
    CHECK(buffer.size() >= bytes);
    growths += buffer.size() != before;
  }
  CHECK_EQ(growths, 11);
}

TEST(an_element_of_any_size_takes_no_more_room_than_the_bound) {
  TransferBuffer buffer;
  buffer.reserve(std::size_t{1} << 40);
  CHECK_EQ(buffer.size(), TransferBuffer::kMostBytes);
}

TEST(parts_are_written_one_behind_the_other) {
  TransferBuffer buffer;
  buffer.reserve(6);
  buffer.write("ab", 2);
  buffer.write("", 0);
  buffer.write("cdef", 4);
  CHECK_EQ(std::string(buffer.data(), 6), std::string("abcdef"));
  buffer.write("x", 1);
  buffer.rewind();
  buffer.write("YZ", 2);
  CHECK_EQ(std::string(buffer.data(), 6), std::string("YZcdef"));
}

TEST(what_is_larger_than_the_room_goes_through_it_whole) {
  TransferBuffer buffer;
  buffer.reserve(64);
  const auto numbers = noise(64 * 5 + 7);
  buffer.write(numbers.data(), 50);
  buffer.write(numbers.data() + 50, numbers.size() - 50);
  for (std::size_t i = numbers.size() - 64; i < numbers.size(); ++i) {
    CHECK_EQ(buffer.data()[i % 64], numbers[i]);
  }
}
