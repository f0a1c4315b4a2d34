// The test programs' harness: TEST, CHECK, a watchdog, seeds, threads in step.
//
//   TEST(an_element_crosses) { CHECK_EQ(...); }      main() is here and runs them all
//   program [part of a test's name]                  runs only the tests that match
//
// Include it first, and from one file per program. A failed check ends the process at
// once, from whichever thread, and says where, what, in which test and with which seed.
//   IPUFEED_TEST_SEED=n          the seed of every random choice and delay; by default
//                                a random one, which is printed
//   -DIPUFEED_TEST_SCALE=n       divides the counts, for the slow sanitizers
//   -DIPUFEED_TEST_DELAYS        random delays at the yield points of the headers; a
//                                feeder calls check::after_a_ring after each ring's end
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#ifndef IPUFEED_TEST_SCALE
#define IPUFEED_TEST_SCALE 1
#endif

namespace check {

// Far above any healthy run of a whole program: only a deadlock gets there.
inline constexpr int kWatchdogS = 180;

// What a feeder does after the end of each of its rings, in builds with delays; set and
// reset while no feeder has begun.
inline std::function<void()> after_a_ring;

// `count` for a plain build, less for a slow one, never 0.
constexpr int scaled(int count) {
  return count / IPUFEED_TEST_SCALE < 1 ? 1 : count / IPUFEED_TEST_SCALE;
}

inline std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* text = std::getenv("IPUFEED_TEST_SEED");
    if (text != nullptr) return std::strtoull(text, nullptr, 10);
    return static_cast<unsigned long long>(std::random_device()());
  }();
  return value;
}

// splitmix64: small, and good enough from any seed, 0 included.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

inline std::atomic<const char*> running{"no test"};

// _Exit: the other threads may be in the middle of anything.
[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: FAILED in %s: %s (IPUFEED_TEST_SEED=%llu)\n", file, line,
               running.load(), what.c_str(), static_cast<unsigned long long>(seed()));
  std::fflush(nullptr);
  std::_Exit(1);
}

template <class Value>
std::string show(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return std::to_string(static_cast<long long>(value));
  } else if constexpr (std::is_arithmetic_v<Value>) {
    return std::to_string(value);
  } else {
    return std::string(value);
  }
}

template <class A, class B>
void equal(const A& a, const B& b, const char* text, const char* file, int line) {
  if (!(a == b))
    fail(file, line, std::string(text) + ", got " + show(a) + ", " + show(b));
}

#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) check::fail(__FILE__, __LINE__, #condition); \
  } while (false)
#define CHECK_EQ(a, b) check::equal((a), (b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_THROWS(Exception, expression, text)                          \
  do {                                                                     \
    std::string got = "no exception";                                      \
    try {                                                                  \
      static_cast<void>(expression);                                       \
    } catch (const Exception& error) {                                     \
      got = error.what();                                                  \
    }                                                                      \
    check::equal(got, std::string(text), #expression, __FILE__, __LINE__); \
  } while (false)

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

#define TEST(name)                                                    \
  static void name();                                                 \
  static const check::Registration name##_registration{#name, &name}; \
  static void name()

// For a retry loop of a test. It sleeps at times, and never yields: on a busy machine a
// thread that yields is back after a time slice of each other one.
inline void relax(int* tries) {
  if (++*tries % 512 == 0) usleep(1);
}

// Keeps the CPU busy for about that many cycles.
inline void spin(std::uint64_t cycles) {
  for (; cycles > 0; --cycles) asm volatile("");
}

// Where threads meet. It spins, so that they leave within nanoseconds of each other and
// the race that follows is a race.
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}
  void meet() {
    const int turn = turn_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
      return;
    }
    int tries = 0;
    while (turn_.load(std::memory_order_acquire) == turn) relax(&tries);
  }

 private:
  const int threads_;
  std::atomic<int> arrived_{0};
  std::atomic<int> turn_{0};
};

// Runs before(round), then every part(round) at the same time, each on its own thread,
// then after(round); `rounds` times. before and after run on the first part's thread.
template <class Before, class After, class... Parts>
void in_step(int rounds, Before before, After after, Parts... parts) {
  Barrier barrier(sizeof...(parts));
  const auto run = [&](bool first, auto part) {
    for (int round = 0; round < rounds; ++round) {
      if (first) before(round);
      barrier.meet();
      part(round);
      barrier.meet();
      if (first) after(round);
    }
  };
  bool first = true;
  std::vector<std::thread> threads;
  (threads.emplace_back(run, std::exchange(first, false), parts), ...);
  for (auto& thread : threads) thread.join();
}

inline int run_tests(const char* wanted) {
  // A thread and not alarm(): ThreadSanitizer holds signals back from blocked threads.
  std::thread([] {
    sleep(kWatchdogS);
    fail(__FILE__, __LINE__, "the watchdog: no end after " + show(kWatchdogS) + " s");
  }).detach();
  std::printf("IPUFEED_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed()));
  int count = 0;
  for (const Test& test : tests()) {
    if (std::strstr(test.name, wanted) == nullptr) continue;
    running = test.name;
    std::printf("%s\n", test.name);
    std::fflush(stdout);
    test.run();
    ++count;
  }
  std::printf("%d passed\n", count);
  return count == 0;
}

}  // namespace check

#ifdef IPUFEED_TEST_DELAYS
void ipufeed_test_ring_ended() {
  if (check::after_a_ring) check::after_a_ring();
}

// Mostly nothing, sometimes a moment, seldom long enough for the other side to come by.
// A sleep and no yield, see relax(). Each thread has its own numbers: a shared
// generator would order the threads.
void ipufeed_test_delay() {
  static std::atomic<std::uint64_t> threads{0};
  thread_local check::Random random(
      check::seed() ^ threads.fetch_add(1, std::memory_order_relaxed) << 32);
  const auto die = random.below(256);
  if (die < 2) {
    usleep(1 + static_cast<useconds_t>(random.below(20)));
  } else if (die < 64) {
    check::spin(random.below(200));
  }
}
#endif

int main(int argc, char** argv) { return check::run_tests(argc > 1 ? argv[1] : ""); }
