// Two threads and one ring: each element once, in order, whole; and what the writer
// wrote before it closed. Under ThreadSanitizer these guard the orders [1] to [6].
#include <limits>
#include <memory>

#include "check.h"
#include "core/spsc_ring.h"

using ipufeed::SpscRing;

namespace {

constexpr std::uint64_t kNear64 = std::numeric_limits<std::uint64_t>::max() - 99;
constexpr std::uint64_t kNear32 = (std::uint64_t{1} << 32) - 100;

// Several plain words: a slot that is read too early or written too early is torn.
struct Payload {
  std::uint64_t number = 0;
  std::uint64_t words[5] = {};
  std::uint64_t sum = 0;

  static Payload of(std::uint64_t number) {
    Payload payload;
    payload.number = number;
    check::Random random(number);
    payload.sum = number;
    for (auto& word : payload.words) payload.sum += word = random.next();
    return payload;
  }

  void check(std::uint64_t expected) const {
    CHECK_EQ(number, expected);
    std::uint64_t got = number;
    for (const auto word : words) got += word;
    CHECK_EQ(got, sum);
  }
};

struct Run {
  std::size_t capacity;
  std::size_t batch;
  std::uint64_t start;
};

void write_all(SpscRing<Payload>* ring, std::uint64_t elements, std::size_t batch) {
  int tries = 0;
  for (std::uint64_t n = 0; n < elements;) {
    const std::uint64_t left = elements - n;
    const auto claimed = ring->try_claim(left < batch ? left : batch);
    if (claimed == 0) check::relax(&tries);
    for (std::size_t i = 0; i < claimed; ++i) ring->claimed(i) = Payload::of(n + i);
    if (claimed > 0) ring->commit(claimed);
    n += claimed;
  }
}

std::uint64_t read_all(SpscRing<Payload>* ring, std::size_t batch) {
  int tries = 0;
  std::uint64_t seen = 0;
  while (!ring->drained()) {
    const auto readable = ring->try_readable(batch);
    if (readable == 0) check::relax(&tries);
    CHECK(readable <= ring->capacity());
    for (std::size_t i = 0; i < readable; ++i) ring->readable(i).check(seen + i);
    if (readable > 0) ring->release(readable);
    seen += readable;
  }
  return seen;
}

void stress(const Run& run, std::uint64_t elements) {
  SpscRing<Payload> ring(run.capacity, run.start);
  std::uint64_t last_words = 0;  // plain: only close() and drained() order it
  std::thread writer([&] {
    write_all(&ring, elements, run.batch);
    last_words = elements * 3;
    ring.close();
  });
  const auto seen = read_all(&ring, run.batch);

  CHECK_EQ(last_words, elements * 3);
  CHECK_EQ(seen, elements);
  CHECK_EQ(ring.size(), std::size_t{0});
  writer.join();
}

}  // namespace

TEST(each_element_crosses_once_in_order_and_whole) {
  for (const auto& run : {Run{1, 1, kNear64}, Run{3, 1, kNear32}, Run{1, 4, 0},
                          Run{3, 2, kNear64}, Run{8, 5, kNear32}, Run{64, 1, kNear64},
                          Run{1000, 1, 0}, Run{1000, 64, kNear64}}) {
    stress(run, check::scaled(40'000));
  }
}

TEST(push_and_pop_carry_owned_elements_across) {
  for (const std::size_t capacity : {1, 3, 64}) {
    SpscRing<std::unique_ptr<Payload>> ring(capacity, kNear64);
    const std::uint64_t elements = check::scaled(40'000);
    std::thread writer([&] {
      int tries = 0;
      for (std::uint64_t n = 0; n < elements; ++n) {
        auto element = std::make_unique<Payload>(Payload::of(n));
        while (!ring.try_push(std::move(element))) check::relax(&tries);
        CHECK(element == nullptr);
      }
      ring.close();
    });
    std::uint64_t seen = 0;
    int tries = 0;
    std::unique_ptr<Payload> element;
    while (!ring.drained()) {
      if (!ring.try_pop(&element)) {
        check::relax(&tries);
        continue;
      }
      element->check(seen++);
    }
    CHECK_EQ(seen, elements);
    writer.join();
  }
}

// The reference is dropped by the reader, so no buffer may be alive beyond those that
// are inside, in the writer's hand and in the reader's.
TEST(no_more_buffers_are_alive_than_capacity_and_one_in_each_hand) {
  static std::atomic<int> alive{0};
  struct Buffer {
    Buffer() { alive.fetch_add(1, std::memory_order_relaxed); }
    ~Buffer() { alive.fetch_sub(1, std::memory_order_relaxed); }
  };
  for (const std::size_t capacity : {1, 3, 7}) {
    SpscRing<std::unique_ptr<Buffer>> ring(capacity);
    const int elements = check::scaled(20'000);
    std::thread writer([&] {
      int tries = 0;
      for (int n = 0; n < elements; ++n) {
        auto element = std::make_unique<Buffer>();
        CHECK(alive.load(std::memory_order_relaxed) <= static_cast<int>(capacity) + 2);
        while (!ring.try_push(std::move(element))) check::relax(&tries);
      }
      ring.close();
    });
    int tries = 0;
    while (!ring.drained()) {
      std::unique_ptr<Buffer> element;
      if (!ring.try_pop(&element)) check::relax(&tries);
    }
    writer.join();
    CHECK_EQ(alive.load(), 0);
  }
}

TEST(a_limit_that_changes_on_the_way_loses_nothing) {
  SpscRing<Payload> ring(8, kNear32);
  const std::uint64_t elements = check::scaled(40'000);
  std::thread writer([&] {
    check::Random random(check::seed());
    int tries = 0;
    for (std::uint64_t n = 0; n < elements; ++n) {
      if (random.below(16) == 0) ring.set_limit(1 + random.below(8));
      auto element = Payload::of(n);
      while (!ring.try_push(std::move(element))) check::relax(&tries);
    }
    ring.close();
  });
  CHECK_EQ(read_all(&ring, 3), elements);
  writer.join();
}
