// The clock of steps: when a simulated device computes, starves and is blocked.
//
// Times are made up, so that each promise is a sum of a few numbers.

#include "core/step_clock.h"

#include <algorithm>

#include "check.h"

using namespace ipufeed;

// What from end to end went where must add up, whatever happened.
static void check_sum(const StepTimes& before, const StepTimes& t, std::int64_t step) {
  const std::int64_t blocked = t.free_ns - before.end_ns;
  const std::int64_t starved = t.start_ns - t.free_ns;
  const std::int64_t late = t.end_ns - t.start_ns - step;
  CHECK(blocked >= 0 && starved >= 0 && late >= 0);
  CHECK(blocked + starved + step + late == t.end_ns - before.end_ns);
}

TEST(the_first_step_begins_when_the_program_gets_there) {
  StepClock clock;
  clock.take(100);  // read ahead, long before the program
  const StepTimes first = clock.next(5000, 1000);
  CHECK(first.free_ns == 5000 && first.start_ns == 5000 && first.end_ns == 6000);
}

TEST(what_the_harness_takes_lies_within_the_step) {
  StepClock clock;
  const StepTimes first = clock.next(1000, 1000);
  clock.take(1500);                                 // there before the step ended
  const StepTimes second = clock.next(2400, 1000);  // 400 late
  check_sum(first, second, 1000);
  CHECK(second.start_ns == 2000 && second.end_ns == 3000);
  CHECK(second.called_ns == 2400);
}

TEST(an_element_that_comes_late_starves_the_device) {
  StepClock clock;
  const StepTimes first = clock.next(1000, 1000);
  clock.take(2700);
  const StepTimes second = clock.next(2750, 1000);
  check_sum(first, second, 1000);
  CHECK(second.free_ns == 2000 && second.start_ns == 2700 && second.end_ns == 3700);
}

TEST(an_older_element_does_not_turn_the_clock_back) {
  StepClock clock;
  const StepTimes first = clock.next(1000, 1000);
  clock.take(2700);
  clock.take(2100);  // of another infeed
  const StepTimes second = clock.next(2750, 1000);
  check_sum(first, second, 1000);
  CHECK(second.start_ns == 2700);
}

TEST(a_full_outfeed_holds_the_device_up_before_it_starves) {
  StepClock clock;
  const StepTimes first = clock.next(1000, 1000);
  clock.held_until(2600);
  clock.take(2900);
  const StepTimes second = clock.next(2950, 1000);
  check_sum(first, second, 1000);
  CHECK(second.free_ns == 2600 && second.start_ns == 2900 && second.end_ns == 3900);
}

TEST(a_harness_slower_than_the_step_is_neither_hidden_nor_made_up_for) {
  StepClock clock;
  StepTimes before = clock.next(1000, 100);
  for (int i = 1; i < 100; ++i) {
    clock.take(1);
    const StepTimes now = clock.next(1000 + 250 * i, 100);
    check_sum(before, now, 100);
    if (i >= 8) CHECK_EQ(now.end_ns, now.called_ns - StepClock::kSlackSteps * 100);
    before = now;
  }
  CHECK_EQ(before.end_ns, 1000 + 250 * 99 - StepClock::kSlackSteps * 100);
}

TEST(a_thread_kept_from_its_cpu_catches_up) {
  constexpr std::int64_t kStep = 1'000'000;
  StepClock clock;
  StepTimes before = clock.next(1000, kStep);
  std::int64_t now = before.end_ns;
  for (int i = 1; i < 100; ++i) {
    if (i % 20 == 0) now += 4 * kStep;  // a time slice of another thread
    clock.take(1);
    const StepTimes times = clock.next(now + 1000, kStep);
    check_sum(before, times, kStep);
    CHECK_EQ(times.end_ns - before.end_ns, kStep);
    now = std::max(now + 1000, times.end_ns);  // it sleeps, or is late as it is
    before = times;
  }
}

TEST(an_element_that_waited_for_a_late_program_did_not_starve_it) {
  StepClock clock;
  StepTimes before = clock.next(1'000, 1'000);  // until 2'000
  clock.take(2'500);
  before = clock.next(6'000, 1'000);  // 3'500 late
  CHECK(before.start_ns == 2'500 && before.end_ns == 3'500);
  clock.take(4'000);
  const StepTimes next = clock.next(6'100, 1'000);
  check_sum(before, next, 1'000);
  CHECK(next.free_ns == 3'500 && next.start_ns == 4'000 && next.end_ns == 5'000);
}

TEST(no_step_falls_behind_by_more_than_the_slack) {
  for (const std::int64_t step : {std::int64_t{1}, std::int64_t{5'000'000},
                                  std::int64_t{1'000'000'000'000'000}}) {
    StepClock clock;
    const StepTimes first = clock.next(1, step);
    const std::int64_t called = first.end_ns + 3 * step + 50'000'000;
    const StepTimes late = clock.next(called, step);
    check_sum(first, late, step);
    CHECK(called - late.end_ns <= StepClock::kSlackNs);
    CHECK(called - late.end_ns <= StepClock::kSlackSteps * step);
  }
}

TEST(a_stamp_from_the_future_is_cut_to_now) {
  StepClock clock;
  const StepTimes first = clock.next(1000, 1000);
  clock.take(9000);
  const StepTimes second = clock.next(2100, 1000);
  check_sum(first, second, 1000);
  CHECK(second.start_ns == 2100);
}
