// What a measurement keeps promises. The table of marks: bounded, the first and the
// last one kept, and sums between two marks that are right whatever has gone. The place
// of the copies: room that is bounded, and all that was written.

#include <string>
#include <vector>

#include "check.h"
#include "core/mark_table.h"
#include "core/transfer_buffer.h"

using ipufeed::Mark;
using ipufeed::MarkTable;
using ipufeed::TransferBuffer;

namespace {

Mark mark_at(std::int64_t at_ns) {
  return {at_ns, at_ns / 10, 7 * at_ns, at_ns / 2, at_ns / 4, 3 * at_ns, at_ns};
}

std::vector<char> noise(std::size_t bytes) {
  check::Random random(check::seed());
  std::vector<char> numbers(bytes);
  for (char& number : numbers) number = static_cast<char>(random.next());
  return numbers;
}

}  // namespace

TEST(a_mark_is_due_once_the_interval_is_over) {
  MarkTable table(100, 8);
  CHECK(table.due(0));
  table.add(mark_at(0));
  CHECK(!table.due(99));
  CHECK(table.due(100));
}

TEST(a_full_table_keeps_every_other_mark_and_makes_them_twice_as_rare) {
  MarkTable table(100, 4);
  for (std::int64_t at = 0; at < 400; at += 100) table.add(mark_at(at));
  CHECK_EQ(table.marks().size(), 4u);
  table.add(mark_at(400));
  CHECK_EQ(table.marks().size(), 3u);
  CHECK_EQ(table.marks()[0].at_ns, 0);
  CHECK_EQ(table.marks()[1].at_ns, 200);
  CHECK_EQ(table.marks()[2].at_ns, 400);
  CHECK(!table.due(599));
  CHECK(table.due(600));
}

TEST(an_hour_fits_and_its_differences_are_exact) {
  MarkTable table(10, 64);
  for (std::int64_t at = 0; at <= 1'000'000; at += 5) {
    if (table.due(at)) table.add(mark_at(at));
  }
  table.add(mark_at(1'000'000));
  const auto& marks = table.marks();
  CHECK(marks.size() <= 64u);
  CHECK(marks.size() >= 32u);
  CHECK_EQ(marks.front().at_ns, 0);
  CHECK_EQ(marks.back().at_ns, 1'000'000);
  std::int64_t bytes = 0;
  for (std::size_t i = 1; i < marks.size(); ++i) {
    CHECK(marks[i].at_ns > marks[i - 1].at_ns);
    bytes += marks[i].bytes - marks[i - 1].bytes;
  }
  CHECK_EQ(bytes, 7'000'000);
}

TEST(a_mark_at_the_time_of_the_last_one_takes_its_place) {
  MarkTable table(100, 4);
  table.add(mark_at(0));
  table.add({0, 5, 6, 7, 8, 9, 10});
  CHECK_EQ(table.marks().size(), 1u);
  CHECK_EQ(table.marks()[0].elements, 5);
}

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
