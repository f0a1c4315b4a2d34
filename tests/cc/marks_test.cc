// What the table of marks promises: bounded, the first and the last one kept, and sums
// between two marks that are right whatever has gone.

#include "check.h"
#include "core/course.h"

using ipufeed::Mark;
using ipufeed::MarkTable;

namespace {

Mark mark_at(std::int64_t at_ns) {
  return {at_ns, at_ns / 10, 7 * at_ns, at_ns / 2, at_ns / 4, 3 * at_ns, at_ns};
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
