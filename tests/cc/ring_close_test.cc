// Many tiny ring lives, because a long run closes only once: the last element, pushed
// just before close(), is never lost, and neither is what was written before it.
// -DIPUFEED_PLANT_DRAINED_ORDER must make it fail.
#include <memory>

#include "check.h"
#include "core/spsc_ring.h"

namespace {

constexpr int kLives = check::scaled(20'000) * 3;

}  // namespace

TEST(a_reader_that_sees_the_end_has_seen_the_last_element) {
  std::unique_ptr<ipufeed::SpscRing<int>> ring;
  int last_words = 0;  // plain: only close() and drained() order it
  int seen = 0;
  check::in_step(
      kLives,
      [&](int life) {
        ring = std::make_unique<ipufeed::SpscRing<int>>(1 + life % 3, life - 2);
        last_words = seen = 0;
      },
      [&](int life) { CHECK_EQ(seen, life % 4); },
      [&](int life) {
        int tries = 0;
        for (int n = 0; n < life % 4; ++n) {
          while (!ring->try_push(int{n})) check::relax(&tries);
        }
        last_words = life;
        ring->close();
      },
      [&](int life) {
        int tries = 0;
        while (!ring->drained()) {
          int number = -1;
          if (!ring->try_pop(&number)) {
            check::relax(&tries);
            continue;
          }
          CHECK_EQ(number, seen);
          ++seen;
        }
        CHECK_EQ(last_words, life);
      });
}
