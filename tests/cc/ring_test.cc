// What the ring promises to one thread: sizes, order, batches, limits, ends, ownership.
#include <limits>
#include <memory>
#include <stdexcept>

#include "check.h"
#include "core/spsc_ring.h"

using ipufeed::SpscRing;

namespace {

constexpr std::uint64_t kNear64 = std::numeric_limits<std::uint64_t>::max() - 4;
constexpr std::uint64_t kNear32 = (std::uint64_t{1} << 32) - 5;
constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();

// Moves only, and counts the ones that hold something.
class Token {
 public:
  static inline int alive = 0;
  Token() = default;
  explicit Token(int number) : number_(number) { ++alive; }
  Token(Token&& other) noexcept : number_(std::exchange(other.number_, 0)) {}
  Token& operator=(Token&& other) noexcept {
    if (number_ != 0) --alive;
    number_ = std::exchange(other.number_, 0);
    return *this;
  }
  ~Token() {
    if (number_ != 0) --alive;
  }
  int number() const { return number_; }

 private:
  int number_ = 0;
};

bool push(SpscRing<int>* ring, int number) { return ring->try_push(std::move(number)); }

int pop(SpscRing<int>* ring) {
  int number = -1;
  return ring->try_pop(&number) ? number : -1;
}

}  // namespace

TEST(a_capacity_out_of_range_is_refused_by_value) {
  CHECK_THROWS(std::invalid_argument, SpscRing<int>(0),
               "capacity must be in [1, 2^31], got 0");
  CHECK_THROWS(std::invalid_argument, SpscRing<int>((std::size_t{1} << 31) + 1),
               "capacity must be in [1, 2^31], got 2147483649");
  CHECK_THROWS(std::invalid_argument, SpscRing<int>(kEverything),
               "capacity must be in [1, 2^31], got 18446744073709551615");
}

TEST(any_capacity_holds_exactly_that_many) {
  for (const int capacity : {1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 33, 1000}) {
    SpscRing<int> ring(capacity);
    CHECK_EQ(ring.capacity(), std::size_t(capacity));
    for (int n = 0; n < capacity; ++n) CHECK(push(&ring, n));
    CHECK(!push(&ring, capacity));
    CHECK_EQ(ring.size(), std::size_t(capacity));
    for (int n = 0; n < capacity; ++n) CHECK_EQ(pop(&ring), n);
    CHECK_EQ(pop(&ring), -1);
    CHECK_EQ(ring.size(), std::size_t{0});
  }
}

TEST(elements_come_out_in_order_around_every_wrap) {
  for (const auto start : {std::uint64_t{0}, kNear32, kNear64}) {
    for (const int capacity : {1, 2, 3, 5, 8}) {
      SpscRing<int> ring(capacity, start);
      CHECK_EQ(pop(&ring), -1);
      for (int n = 0; n < 40; ++n) {
        CHECK(push(&ring, 2 * n));
        if (capacity > 1) CHECK(push(&ring, 2 * n + 1));
        CHECK_EQ(ring.size(), std::size_t(capacity > 1 ? 2 : 1));
        CHECK_EQ(pop(&ring), 2 * n);
        if (capacity > 1) CHECK_EQ(pop(&ring), 2 * n + 1);
      }
    }
  }
}

TEST(a_ring_can_be_full_across_the_wrap) {
  for (const auto start : {kNear32, kNear64}) {
    for (const int capacity : {1, 3, 7, 8}) {
      SpscRing<int> ring(capacity, start);
      for (int lap = 0; lap < 4; ++lap) {
        for (int n = 0; n < capacity; ++n) CHECK(push(&ring, n));
        CHECK(!push(&ring, -2));
        CHECK_EQ(ring.try_readable(kEverything), std::size_t(capacity));
        for (int n = 0; n < capacity; ++n) CHECK_EQ(pop(&ring), n);
      }
    }
  }
}

TEST(a_claim_counts_what_is_free_and_no_more_than_asked) {
  SpscRing<int> ring(5);
  CHECK_EQ(ring.try_claim(0), std::size_t{0});
  CHECK_EQ(ring.try_claim(3), std::size_t{3});
  CHECK_EQ(ring.try_claim(5), std::size_t{5});
  CHECK_EQ(ring.try_claim(6), std::size_t{5});
  CHECK(push(&ring, 0));
  CHECK(push(&ring, 1));
  CHECK_EQ(ring.try_claim(5), std::size_t{3});
  CHECK_EQ(ring.try_claim(kEverything), std::size_t{3});
  CHECK_EQ(ring.try_readable(1), std::size_t{1});
  CHECK_EQ(ring.try_readable(kEverything), std::size_t{2});
}

TEST(a_batch_is_invisible_until_it_is_committed) {
  SpscRing<int> ring(8, kNear64);
  CHECK_EQ(ring.try_claim(6), std::size_t{6});
  for (int n = 0; n < 6; ++n) ring.claimed(n) = n;
  CHECK_EQ(ring.try_readable(8), std::size_t{0});

  ring.commit(4);  // fewer than claimed
  CHECK_EQ(ring.try_readable(8), std::size_t{4});
  for (int n = 0; n < 4; ++n) CHECK_EQ(ring.readable(n), n);

  ring.release(3);  // fewer than readable
  CHECK_EQ(ring.try_claim(8), std::size_t{7});
  CHECK_EQ(ring.try_readable(8), std::size_t{1});
  CHECK_EQ(ring.readable(0), 3);
}

TEST(a_limit_bounds_the_writer_and_spares_what_is_inside) {
  SpscRing<int> ring(4);
  for (int n = 0; n < 3; ++n) CHECK(push(&ring, n));

  ring.set_limit(2);
  CHECK_EQ(ring.try_claim(1), std::size_t{0});
  CHECK_EQ(ring.try_claim(kEverything), std::size_t{0});
  CHECK_EQ(pop(&ring), 0);
  CHECK(!push(&ring, 3));
  CHECK_EQ(pop(&ring), 1);
  CHECK(push(&ring, 3));
  CHECK(!push(&ring, 4));

  ring.set_limit(4);
  CHECK_EQ(ring.try_claim(9), std::size_t{2});
  CHECK_EQ(ring.capacity(), std::size_t{4});
}

TEST(a_limit_out_of_range_is_the_nearest_in_range) {
  SpscRing<int> ring(3);
  ring.set_limit(0);
  CHECK_EQ(ring.try_claim(3), std::size_t{1});
  ring.set_limit(kEverything);
  CHECK_EQ(ring.try_claim(9), std::size_t{3});
}

TEST(a_closed_ring_still_gives_what_is_inside) {
  SpscRing<int> ring(3);
  CHECK(!ring.closed());
  CHECK(!ring.drained());
  CHECK(push(&ring, 7));
  ring.close();
  ring.close();
  CHECK(ring.closed());
  CHECK(!ring.drained());
  CHECK_EQ(pop(&ring), 7);
  CHECK(ring.drained());
  CHECK(ring.drained());
  CHECK_EQ(pop(&ring), -1);
}

TEST(an_empty_ring_that_is_open_is_not_drained) {
  SpscRing<int> ring(1);
  CHECK(push(&ring, 1));
  CHECK_EQ(pop(&ring), 1);
  CHECK(!ring.drained());
}

TEST(a_full_ring_leaves_the_element_with_the_caller) {
  SpscRing<std::unique_ptr<int>> ring(1);
  CHECK(ring.try_push(std::make_unique<int>(1)));
  auto kept = std::make_unique<int>(2);
  CHECK(!ring.try_push(std::move(kept)));
  CHECK(kept != nullptr);
  CHECK_EQ(*kept, 2);

  std::unique_ptr<int> got;
  CHECK(ring.try_pop(&got));
  CHECK_EQ(*got, 1);
  CHECK(ring.try_push(std::move(kept)));
  CHECK(kept == nullptr);
}

TEST(an_empty_ring_leaves_the_caller_s_element_alone) {
  SpscRing<int> ring(1);
  int number = 5;
  CHECK(!ring.try_pop(&number));
  CHECK_EQ(number, 5);
}

TEST(a_popped_element_lives_with_the_reader_alone) {
  SpscRing<std::shared_ptr<int>> ring(2);
  const auto original = std::make_shared<int>(3);
  CHECK(ring.try_push(std::shared_ptr<int>(original)));
  CHECK_EQ(original.use_count(), 2L);
  std::shared_ptr<int> got;
  CHECK(ring.try_pop(&got));
  CHECK_EQ(original.use_count(), 2L);
  got.reset();
  CHECK_EQ(original.use_count(), 1L);
}

TEST(no_element_outlives_its_ring) {
  CHECK_EQ(Token::alive, 0);
  {
    SpscRing<Token> ring(3, kNear64);
    for (int n = 1; n <= 9; ++n) {
      CHECK(ring.try_push(Token(n)));
      if (n >= 3) {
        Token got;
        CHECK(ring.try_pop(&got));
        CHECK_EQ(got.number(), n - 2);
      }
    }
    CHECK_EQ(Token::alive, 2);
  }
  CHECK_EQ(Token::alive, 0);
}

TEST(what_is_released_unmoved_stays_alive_until_its_slot_is_written) {
  SpscRing<Token> ring(1);
  CHECK(ring.try_push(Token(1)));
  CHECK_EQ(ring.try_readable(1), std::size_t{1});
  ring.release(1);
  CHECK_EQ(Token::alive, 1);
  CHECK(ring.try_push(Token(2)));
  CHECK_EQ(Token::alive, 1);
}

TEST(the_lower_bound_of_the_fill_is_what_the_reader_has_seen) {
  SpscRing<int> ring(4);
  for (int n = 0; n < 3; ++n) CHECK(push(&ring, n));
  CHECK_EQ(ring.filled_at_least(), std::size_t{0});
  CHECK_EQ(pop(&ring), 0);
  CHECK_EQ(ring.filled_at_least(), std::size_t{2});
  CHECK(push(&ring, 3));
  CHECK_EQ(ring.filled_at_least(), std::size_t{2});
}
