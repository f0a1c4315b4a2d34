// What a hand-over costs: the ring, the feed, and what they are measured against.
//
//   ring_bench [--rounds N] [--quick] [--table] [--only PART]
//
// JSON on stdout (or a table for eyes). Each round runs every case once, so that
// whatever else the machine does meets them all; a case gives one figure per round, and
// the median and the quartiles over the rounds are reported. Ratios are formed within a
// round.
//
//   streams      ns per element in the steady state: the reader stamps the clock when
//   an
//                eighth has passed (the warm-up) and after the last element
//   round trips  p50 and p99 of one element going out by one queue and back by another,
//                next to two threads that pass one cache line to and fro (line_rtt),
//                than which nothing that the other core must see at once can be faster;
//                and two lines (two_lines_rtt), since an element is not where its
//                counter is
//   slow writer  an element each millisecond through a feed: the CPU that waiting burns
//
// Not included: threads that share CPUs with others, more than two CPUs, NUMA. A stream
// has two regimes: a reader that lags takes a run of elements from each cache line, one
// that has caught up pays a transfer for each. Hence quartiles, and cpu_relax() in
// every retry loop on both sides.
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#if __has_include(<boost/lockfree/spsc_queue.hpp>)
#include <boost/lockfree/spsc_queue.hpp>
#define RING_BENCH_BOOST 1
#endif

#include "core/feed.h"
#include "core/spsc_ring.h"
#include "core/wait.h"

namespace {

using ipufeed::cpu_relax;
using ipufeed::now_ns;
using ipufeed::thread_cpu_ns;

constexpr std::size_t kCapacity = 1024;

// ---- The machine ----

std::vector<int> usable_cpus() {
  cpu_set_t mask;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<int> pinned;  // the writer's CPU and the reader's; empty when not pinned

void pin(std::size_t side) {
  if (pinned.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(pinned[side], &one);
  sched_setaffinity(0, sizeof(one), &one);
}

long involuntary_switches() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

// A stamp for single round trips: the cheapest clock there is.
std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();  // in steps of 10 ns on some machines
#else
  return static_cast<std::uint64_t>(now_ns());
#endif
}

double ns_per_tick = 1;
double stamp_ns = 0;  // what a stamp itself costs; taken off every round trip

void calibrate() {
  const auto ns = now_ns();
  const auto start = ticks();
  while (now_ns() - ns < 20'000'000) cpu_relax();
  ns_per_tick =
      static_cast<double>(now_ns() - ns) / static_cast<double>(ticks() - start);
  const auto first = ticks();
  for (int i = 0; i < 1000; ++i) ticks();
  stamp_ns = static_cast<double>(ticks() - first) * ns_per_tick / 1001;
}

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "ring_bench: %s\n", what.c_str());
  std::_Exit(1);
}

// ---- Elements ----

// `field` is on another line than `references`, as a tensor's bytes are.
struct Buffer {
  alignas(ipufeed::kCacheLine) std::atomic<std::int32_t> references{1};
  alignas(ipufeed::kCacheLine) std::uint64_t field = 0;
};

class Handle {
 public:
  Handle() = default;
  explicit Handle(Buffer* buffer) : buffer_(buffer) {
    buffer_->references.fetch_add(1, std::memory_order_relaxed);
  }
  Handle(Handle&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    Buffer* old = std::exchange(buffer_, std::exchange(other.buffer_, nullptr));
    if (old != nullptr) drop(old);
    return *this;
  }
  ~Handle() {
    if (buffer_ != nullptr) drop(buffer_);
  }
  std::uint64_t field() const { return buffer_->field; }

 private:
  static void drop(Buffer* buffer) {
    if (buffer->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      die("a buffer lost its last reference");
    }
  }
  Buffer* buffer_ = nullptr;
};

constexpr std::uint64_t kBuffers = 4096;

std::vector<Buffer>& buffers() {
  static std::vector<Buffer> all(kBuffers);
  return all;
}

// How the n-th element of a kind is made, and what reading it gives.
struct Pointer {
  using Element = std::uint64_t;
  static Element make(std::uint64_t n) { return n + 1; }
  static std::uint64_t read(Element element) { return element; }
  static std::uint64_t expected(std::uint64_t n) { return n + 1; }
};

struct Counted {
  using Element = Handle;
  static Element make(std::uint64_t n) { return Handle(&buffers()[n % kBuffers]); }
  static std::uint64_t read(const Element& element) { return element.field(); }
  static std::uint64_t expected(std::uint64_t n) { return n % kBuffers; }
};

// ---- Queues: push() and pop() wait, each in its own way ----

template <class Element>
class Ring {
 public:
  void push(Element&& element) {
    while (!ring_.try_push(std::move(element))) cpu_relax();
  }
  void pop(Element* element) {
    while (!ring_.try_pop(element)) cpu_relax();
  }
  ipufeed::SpscRing<Element>& ring() { return ring_; }

 private:
  ipufeed::SpscRing<Element> ring_{kCapacity};
};

template <class Element>
class WaitingFeed {
 public:
  void push(Element&& element) { feed_.push(std::move(element)); }
  void pop(Element* element) { feed_.pop(element); }

 private:
  ipufeed::Feed<Element, std::string> feed_{kCapacity};
};

#ifdef RING_BENCH_BOOST
// Where Boost is installed; it does not wait either.
template <class Element>
class Boost {
 public:
  void push(Element&& element) {
    while (!queue_.push(element)) cpu_relax();
  }
  void pop(Element* element) {
    while (!queue_.pop(*element)) cpu_relax();
  }

 private:
  boost::lockfree::spsc_queue<Element, boost::lockfree::capacity<kCapacity>> queue_;
};
#endif

template <class Element>
class Locked {
 public:
  void push(Element&& element) {
    std::unique_lock<std::mutex> lock(mutex_);
    not_full_.wait(lock, [this] { return elements_.size() < kCapacity; });
    elements_.push_back(std::move(element));
    lock.unlock();
    not_empty_.notify_one();
  }
  void pop(Element* element) {
    std::unique_lock<std::mutex> lock(mutex_);
    not_empty_.wait(lock, [this] { return !elements_.empty(); });
    *element = std::move(elements_.front());
    elements_.pop_front();
    lock.unlock();
    not_full_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable not_full_, not_empty_;
  std::deque<Element> elements_;
};

// ---- Running a case ----

// Figures of one round by name ("ns", or "p50_ns" and "p99_ns", ...).
using Figures = std::map<std::string, double>;

// Both sides on threads of their own, each pinned.
template <class Writer, class Reader>
long run_both(Writer write, Reader read) {
  std::atomic<int> ready{0};
  long switches[2] = {0, 0};
  const auto side = [&](std::size_t index, auto& body) {
    pin(index);
    ready.fetch_add(1);
    while (ready.load() < 2) sched_yield();
    const long before = involuntary_switches();
    body();
    switches[index] = involuntary_switches() - before;
  };
  std::thread writer([&] { side(0, write); });
  std::thread reader([&] { side(1, read); });
  writer.join();
  reader.join();
  return switches[0] + switches[1];
}

// The reader's books: the sum of what it read, and the time after the warm-up. A reader
// keeps a copy of its own, in registers: with the books in memory it is slower than the
// writer, the ring is always full, and the figure (11 ns instead of 4) is that of a
// writer that polls.
class Tally {
 public:
  explicit Tally(std::uint64_t elements) : elements_(elements), warm_(elements / 8) {}
  void add(std::uint64_t value) {
    sum_ += value;
    if (++seen_ == warm_) start_ns_ = now_ns();
    if (seen_ == elements_) end_ns_ = now_ns();
  }
  bool done() const { return seen_ == elements_; }

  template <class Kind>
  double ns_per_element() const {
    std::uint64_t expected = 0;
    for (std::uint64_t n = 0; n < elements_; ++n) expected += Kind::expected(n);
    if (sum_ != expected) die("wrong checksum: an element was lost, doubled or torn");
    return static_cast<double>(end_ns_ - start_ns_) /
           static_cast<double>(elements_ - warm_);
  }

 private:
  std::uint64_t elements_, warm_;
  std::uint64_t seen_ = 0, sum_ = 0;
  std::int64_t start_ns_ = 0, end_ns_ = 0;
};

template <class Kind, template <class> class Queue>
long stream(std::uint64_t elements, Figures* figures) {
  auto queue = std::make_unique<Queue<typename Kind::Element>>();
  Tally books(elements);
  const long switches = run_both(
      [elements, queue = queue.get()] {
        for (std::uint64_t n = 0; n < elements; ++n) queue->push(Kind::make(n));
      },
      [&books, queue = queue.get()] {
        Tally tally = books;
        while (!tally.done()) {
          typename Kind::Element element;
          queue->pop(&element);
          tally.add(Kind::read(element));
        }
        books = tally;
      });
  (*figures)["ns"] = books.ns_per_element<Kind>();
  return switches;
}

// Each side takes what there is, up to kBatch, and publishes once for it.
template <class Kind, std::size_t kBatch>
long stream_batched(std::uint64_t elements, Figures* figures) {
  using Element = typename Kind::Element;
  auto ring = std::make_unique<ipufeed::SpscRing<Element>>(kCapacity);
  Tally books(elements);
  const long switches = run_both(
      [elements, ring = ring.get()] {
        for (std::uint64_t n = 0; n < elements;) {
          const auto claimed = ring->try_claim(std::min(elements - n, kBatch));
          if (claimed == 0) {
            cpu_relax();
            continue;
          }
          for (std::size_t i = 0; i < claimed; ++i)
            ring->claimed(i) = Kind::make(n + i);
          ring->commit(claimed);
          n += claimed;
        }
      },
      [&books, ring = ring.get()] {
        Tally tally = books;
        while (!tally.done()) {
          const auto readable = ring->try_readable(kBatch);
          if (readable == 0) {
            cpu_relax();
            continue;
          }
          for (std::size_t i = 0; i < readable; ++i) {
            const Element element = std::move(ring->readable(i));
            tally.add(Kind::read(element));
          }
          ring->release(readable);
        }
        books = tally;
      });
  (*figures)["ns"] = books.ns_per_element<Kind>();
  return switches;
}

// Stamps of round trips -> p50 and p99, without the first eighth. A stamp may be
// coarser than a trip, so p50 is the median over groups of kGroup trips; p99 is of
// single ones.
void percentiles(const std::vector<std::uint64_t>& stamps, Figures* figures) {
  constexpr std::size_t kGroup = 8;
  const auto trips = [&](std::size_t group) {
    std::vector<double> ns;
    for (auto i = stamps.size() / 8 + group; i < stamps.size(); i += group) {
      const auto took =
          static_cast<double>(stamps[i] - stamps[i - group]) * ns_per_tick;
      ns.push_back(took / static_cast<double>(group) - stamp_ns);
    }
    std::sort(ns.begin(), ns.end());
    return ns;
  };
  const auto groups = trips(kGroup), singles = trips(1);
  (*figures)["p50_ns"] = groups[groups.size() / 2];
  (*figures)["p99_ns"] = singles[singles.size() * 99 / 100];
}

template <class Kind, template <class> class Queue>
long round_trip(std::uint64_t elements, Figures* figures) {
  using Element = typename Kind::Element;
  auto out = std::make_unique<Queue<Element>>();
  auto back = std::make_unique<Queue<Element>>();
  std::vector<std::uint64_t> stamps(elements);
  bool wrong = false;
  const long switches = run_both(
      [&] {
        for (std::uint64_t n = 0; n < elements; ++n) {
          stamps[n] = ticks();
          out->push(Kind::make(n));
          Element element;
          back->pop(&element);
          wrong |= Kind::read(element) != Kind::expected(n);
        }
      },
      [&] {
        for (std::uint64_t n = 0; n < elements; ++n) {
          Element element;
          out->pop(&element);
          back->push(std::move(element));
        }
      });
  if (wrong) die("a round trip brought back another element");
  percentiles(stamps, figures);
  return switches;
}

// The limits: two threads that pass a turn to and fro. With kData, also a word on
// another line, written before the turn and read after it, which is what any ring must
// do.
template <bool kData>
long line_round_trip(std::uint64_t rounds, Figures* figures) {
  struct Lines {
    alignas(ipufeed::kCacheLine) std::atomic<std::uint64_t> turn{0};
    alignas(ipufeed::kCacheLine) std::uint64_t data = 0;
  };
  auto lines = std::make_unique<Lines>();
  std::vector<std::uint64_t> stamps(rounds);
  bool wrong = false;
  const auto pass = [&](std::uint64_t turn) {
    while (lines->turn.load(std::memory_order_acquire) != turn) cpu_relax();
    if (kData) wrong |= std::exchange(lines->data, turn + 1) != turn;
    lines->turn.store(turn + 1, std::memory_order_release);
  };
  const long switches = run_both(
      [&] {
        for (std::uint64_t n = 0; n < rounds; ++n) {
          stamps[n] = ticks();
          pass(2 * n);
        }
      },
      [&] {
        for (std::uint64_t n = 0; n < rounds; ++n) pass(2 * n + 1);
      });
  if (wrong) die("a turn came without its data");
  percentiles(stamps, figures);
  return switches;
}

// A feed whose writer sleeps a millisecond per element: what does waiting cost?
long slow_writer(std::uint64_t elements, Figures* figures) {
  auto feed = std::make_unique<WaitingFeed<std::uint64_t>>();
  std::int64_t writer_cpu = 0, reader_cpu = 0, wall = 0;
  Tally books(elements);
  const long switches = run_both(
      [&] {
        const auto start = thread_cpu_ns();
        for (std::uint64_t n = 0; n < elements; ++n) {
          const timespec ms = {0, 1'000'000};
          nanosleep(&ms, nullptr);
          feed->push(Pointer::make(n));
        }
        writer_cpu = thread_cpu_ns() - start;
      },
      [&] {
        const auto start = thread_cpu_ns();
        const auto start_wall = now_ns();
        Tally tally = books;
        while (!tally.done()) {
          std::uint64_t element = 0;
          feed->pop(&element);
          tally.add(Pointer::read(element));
        }
        wall = now_ns() - start_wall;
        books = tally;
        reader_cpu = thread_cpu_ns() - start;
      });
  books.ns_per_element<Pointer>();  // for its check
  const auto percent = [&](std::int64_t cpu) {
    return 100.0 * static_cast<double>(cpu) / static_cast<double>(wall);
  };
  (*figures)["reader_percent"] = percent(reader_cpu);
  (*figures)["both_percent"] = percent(reader_cpu + writer_cpu);
  return switches;
}

struct Case {
  const char* name;
  long (*run)(std::uint64_t elements, Figures* figures);
  std::uint64_t elements;  // for a few milliseconds
};

const Case kCases[] = {
    {"ring_pointer", stream<Pointer, Ring>, 400'000},
    {"ring_pointer_batch64", stream_batched<Pointer, 64>, 1'000'000},
    {"ring_handle", stream<Counted, Ring>, 60'000},
    {"ring_handle_batch16", stream_batched<Counted, 16>, 200'000},
    {"feed_pointer", stream<Pointer, WaitingFeed>, 200'000},
    {"feed_handle", stream<Counted, WaitingFeed>, 60'000},
#ifdef RING_BENCH_BOOST
    {"boost_pointer", stream<Pointer, Boost>, 400'000},
    {"boost_rtt_pointer", round_trip<Pointer, Boost>, 15'000},
#endif
    {"mutex_pointer", stream<Pointer, Locked>, 20'000},
    {"mutex_handle", stream<Counted, Locked>, 20'000},
    {"line_rtt", line_round_trip<false>, 15'000},
    {"two_lines_rtt", line_round_trip<true>, 15'000},
    {"ring_rtt_pointer", round_trip<Pointer, Ring>, 15'000},
    {"ring_rtt_handle", round_trip<Counted, Ring>, 15'000},
    {"feed_rtt_pointer", round_trip<Pointer, WaitingFeed>, 10'000},
    {"mutex_rtt_pointer", round_trip<Pointer, Locked>, 400},
    {"slow_writer_cpu", slow_writer, 300},
};

// Numerator and denominator, each a case and its figure.
struct Ratio {
  const char* name;
  const char *over, *over_figure, *under, *under_figure;
};

const Ratio kRatios[] = {
    {"ring_rtt_over_line", "ring_rtt_pointer", "p50_ns", "line_rtt", "p50_ns"},
    {"ring_rtt_over_two_lines", "ring_rtt_pointer", "p50_ns", "two_lines_rtt",
     "p50_ns"},
    {"feed_rtt_over_line", "feed_rtt_pointer", "p50_ns", "line_rtt", "p50_ns"},
    {"mutex_rtt_over_feed", "mutex_rtt_pointer", "p50_ns", "feed_rtt_pointer",
     "p50_ns"},
    {"mutex_over_ring", "mutex_pointer", "ns", "ring_pointer", "ns"},
    {"feed_over_ring", "feed_pointer", "ns", "ring_pointer", "ns"},
};

// ---- Reporting ----

struct Series {
  std::vector<double> rounds;
  double at(double quantile) const {
    auto sorted = rounds;
    std::sort(sorted.begin(), sorted.end());
    const double place = quantile * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const auto above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] +
           (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
  }
};

struct Result {
  std::map<std::string, Series> figures;
  long switches = 0;
};

std::string json(const Series& series) {
  char text[200];
  std::snprintf(text, sizeof(text),
                R"({"median": %.3f, "q1": %.3f, "q3": %.3f, "min": %.3f, "values": [)",
                series.at(0.5), series.at(0.25), series.at(0.75), series.at(0));
  std::string whole = text;
  for (std::size_t i = 0; i < series.rounds.size(); ++i) {
    std::snprintf(text, sizeof(text), "%s%.3f", i == 0 ? "" : ", ", series.rounds[i]);
    whole += text;
  }
  return whole + "]}";
}

void print_json(const std::map<std::string, Result>& results,
                const std::map<std::string, Series>& ratios, int rounds, int cpus) {
  std::printf("{\"rounds\": %d, \"capacity\": %zu, \"usable_cpus\": %d, ", rounds,
              kCapacity, cpus);
  if (pinned.empty()) {
    std::printf(
        "\"pinned\": null, \"note\": \"one usable CPU: not pinned, and the two "
        "sides alternate; compare with nothing\", ");
  } else {
    std::printf("\"pinned\": [%d, %d], ", pinned[0], pinned[1]);
  }
  std::printf("\"stamp_ns\": %.2f,\n \"cases\": {", stamp_ns);
  const char* comma = "\n";
  for (const auto& [name, result] : results) {
    std::printf("%s  \"%s\": {", comma, name.c_str());
    for (const auto& [figure, series] : result.figures) {
      std::printf("\"%s\": %s, ", figure.c_str(), json(series).c_str());
    }
    std::printf("\"involuntary_switches\": %ld}", result.switches);
    comma = ",\n";
  }
  std::printf("\n },\n \"ratios\": {");
  comma = "\n";
  for (const auto& [name, series] : ratios) {
    std::printf("%s  \"%s\": %s", comma, name.c_str(), json(series).c_str());
    comma = ",\n";
  }
  std::printf("\n }\n}\n");
}

void print_row(const std::string& name, const Series& series, long switches) {
  std::printf("%-36s %10.2f  [%9.2f - %9.2f] %10.2f %6ld\n", name.c_str(),
              series.at(0.5), series.at(0.25), series.at(0.75), series.at(0), switches);
}

void print_table(const std::map<std::string, Result>& results,
                 const std::map<std::string, Series>& ratios, int rounds) {
  std::printf("%d rounds, %s\n", rounds,
              pinned.empty() ? "one CPU, not pinned" : "pinned");
  std::printf("%-36s %10s  [%9s - %9s] %10s %6s\n", "", "median", "q1", "q3", "min",
              "switch");
  for (const auto& one : kCases) {
    const auto found = results.find(one.name);
    if (found == results.end()) continue;
    for (const auto& [figure, series] : found->second.figures) {
      print_row(found->first + " " + figure, series, found->second.switches);
    }
  }
  for (const auto& [name, series] : ratios) print_row(name, series, 0);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 15;
  bool table = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--quick") {
      rounds = 3;
    } else if (argument == "--table") {
      table = true;
    } else if (argument == "--rounds" && i + 1 < argc) {
      rounds = std::atoi(argv[++i]);
    } else if (argument == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else {
      die("usage: ring_bench [--rounds N] [--quick] [--table] [--only PART], got " +
          argument);
    }
  }
  if (rounds < 1) die("--rounds must be at least 1");

  const auto cpus = usable_cpus();
  if (cpus.size() > 1) pinned = {cpus[0], cpus[1]};
  calibrate();
  for (std::uint64_t n = 0; n < kBuffers; ++n) buffers()[n].field = n;

  std::map<std::string, Result> results;
  std::map<std::string, Series> ratios;
  for (int round = -1; round < rounds; ++round) {  // the round -1 warms up, uncounted
    std::map<std::string, Figures> now;
    for (const auto& one : kCases) {
      if (std::strstr(one.name, only.c_str()) == nullptr) continue;
      const auto elements = round < 0 ? one.elements / 10 + 16 : one.elements;
      const long switches = one.run(elements, &now[one.name]);
      if (round < 0) continue;
      results[one.name].switches += switches;
      for (const auto& [figure, value] : now[one.name]) {
        results[one.name].figures[figure].rounds.push_back(value);
      }
    }
    if (round < 0) continue;
    for (const auto& ratio : kRatios) {
      if (now.count(ratio.over) == 0 || now.count(ratio.under) == 0) continue;
      ratios[ratio.name].rounds.push_back(now[ratio.over][ratio.over_figure] /
                                          now[ratio.under][ratio.under_figure]);
    }
  }
  for (auto& buffer : buffers()) {
    if (buffer.references.load() != 1) die("a reference was leaked");
  }
  const int count = static_cast<int>(cpus.size());
  table ? print_table(results, ratios, rounds)
        : print_json(results, ratios, rounds, count);
  return 0;
}
