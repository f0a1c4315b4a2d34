// The clock of steps: when a simulated device computes, starves and is blocked.
//
// Times are made up, so that each promise is a sum of a few numbers.

#include "step_clock.h"

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
    CHECK(now.end_ns == now.called_ns);
    before = now;
  }
  CHECK(before.end_ns == 1000 + 250 * 99);
}

TEST(a_stamp_from_the_future_is_cut_to_now) {
  StepClock clock;
  const StepTimes first = clock.next(1000, 1000);
  clock.take(9000);
  const StepTimes second = clock.next(2100, 1000);
  check_sum(first, second, 1000);
  CHECK(second.start_ns == 2100);
}
