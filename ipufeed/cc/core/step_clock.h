// When the steps of a simulated device begin and end.
//
//   element there  -----+
//   outfeed had room ---+--> start ----- step ----> end
//   previous end -------+
//
// start(n) = max(end(n - 1), held(n - 1), ready(n))
// end(n)   = max(start(n) + step, when the program got there - slack)
//
// (Lindley's recursion for a queue with one server, as in consumer.cc.) The times are
// those of a device that does not share CPUs with its host. ready(n) is when the
// dataset delivered the element, another IPU sent its tensors or the last replica came
// to an collective, held(n - 1) when an enqueue or a send that had to wait went on. An
// IPU that waits does not compute ahead: a step takes its whole time from when all that
// it needs was there. The delays of our own thread, to wake up and to take and copy the
// element, lie within the step, as a transfer does on a device that computes at the
// same time. A thread that is preempted may fall behind by the slack, at most
// kSlackSteps steps and kSlackNs, and catches up in the next steps: the infeed's ring
// holds that many elements, and the dataset observes no difference. Only a delay beyond
// the slack moves the end of a step, and is reported separately:
//
//   end(n) - end(n - 1) = blocked + starved + step + late
//   blocked = free - end(n - 1)    starved = start - free    late = end - start - step
//
// Knows nothing of TensorFlow, and never waits.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace ipufeed {

// Nanoseconds of the monotonic clock, in the order in which they come.
struct StepTimes {
  std::int64_t free_ns = 0;    // the step before, and its results, were out of the way
  std::int64_t start_ns = 0;   // and the element was there
  std::int64_t called_ns = 0;  // the program reached the step: the harness, since start
  std::int64_t end_ns = 0;     // before called_ns, while it catches up
};

class StepClock {
 public:
  // A quarter of a ring of 32; and a time slice or two of a busy machine.
  static constexpr std::int64_t kSlackSteps = 8;
  static constexpr std::int64_t kSlackNs = 20'000'000;

  // The program's thread: it has taken an element, or what another IPU has sent, that
  // was there at ready_ns, 0 for always.
  //
  // Both stores are relaxed, and so are next()'s loads: in a program the calls follow
  // each other by the token that they hand on. Atomic they are for calls that no token
  // orders (two loops side by side), which must not be a data race.
  void take(std::int64_t ready_ns) noexcept {
    if (ready_ns > ready_ns_.load(std::memory_order_relaxed)) {
      ready_ns_.store(ready_ns, std::memory_order_relaxed);
    }
  }

  // Likewise: a result found its outfeed full until now, or what is sent its ring.
  void held_until(std::int64_t ns) noexcept {
    held_ns_.store(ns, std::memory_order_relaxed);
  }

  // One call at a time. The step that the program reaches at called_ns. The first one
  // begins then: earlier time belongs to no step.
  StepTimes next(std::int64_t called_ns, std::int64_t step_ns) noexcept {
    StepTimes times;
    times.called_ns = called_ns;
    if (end_ns_ == 0) {
      times.free_ns = times.start_ns = called_ns;
    } else {
      const auto held = held_ns_.load(std::memory_order_relaxed);
      const auto ready = ready_ns_.load(std::memory_order_relaxed);
      // No later than now: a stamp from another thread's clock may be ahead by a tick.
      times.free_ns = std::min(called_ns, std::max(end_ns_, held));
      times.start_ns = std::min(called_ns, std::max(times.free_ns, ready));
    }
    // In this order, so that the longest of steps does not overflow.
    const std::int64_t slack = std::min(step_ns, kSlackNs / kSlackSteps) * kSlackSteps;
    times.end_ns = std::max(times.start_ns + step_ns, called_ns - slack);
    end_ns_ = times.end_ns;
    return times;
  }

 private:
  std::atomic<std::int64_t> ready_ns_{0};
  std::atomic<std::int64_t> held_ns_{0};
  std::int64_t end_ns_ = 0;
};

}  // namespace ipufeed
