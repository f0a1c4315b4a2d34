// Random operations on a ring and on a deque: they must agree on everything, always.
#include <algorithm>
#include <deque>
#include <limits>

#include "check.h"
#include "core/spsc_ring.h"

namespace {

constexpr int kSeeds = check::scaled(3000);
constexpr int kOperations = 400;

// What a seed does; its own object, so that a failure can name the seed and the step.
class History {
 public:
  explicit History(std::uint64_t seed)
      : seed_(seed),
        random_(seed),
        capacity_(1 + random_.below(9)),
        limit_(capacity_),
        ring_(capacity_, start()) {}

  void run() {
    for (step_ = 0; step_ < kOperations; ++step_) {
      operation();
      agree(ring_.size(), inside_.size(), "size");
      agree(ring_.closed(), closed_, "closed");
      agree(ring_.filled_at_least() <= inside_.size(), true, "filled_at_least");
    }
  }

 private:
  std::uint64_t start() {
    const auto near = random_.below(20);
    switch (random_.below(3)) {
      case 0:
        return near;
      case 1:
        return (std::uint64_t{1} << 32) - near;
      default:
        return std::uint64_t{0} - near;
    }
  }

  void operation() {
    switch (random_.below(16)) {
      case 0:
        limit_ = 1 + random_.below(capacity_);
        return ring_.set_limit(limit_);
      case 1:
        return agree(ring_.drained(), closed_ && inside_.empty(), "drained");
      case 2:  // seldom, for nothing can be pushed after it
        if (random_.below(20) != 0) return;
        closed_ = true;
        return ring_.close();
      default:
        break;
    }
    switch (random_.below(4)) {
      case 0:
        return closed_ ? void() : push();
      case 1:
        return closed_ ? void() : push_batch();
      case 2:
        return pop();
      default:
        return pop_batch();
    }
  }

  std::size_t free() const {
    return inside_.size() < limit_ ? limit_ - inside_.size() : 0;
  }

  std::size_t some() {
    const auto most = random_.below(capacity_ + 3);
    return most < capacity_ + 2 ? most : std::numeric_limits<std::size_t>::max();
  }

  void push() {
    auto element = next_;
    agree(ring_.try_push(std::move(element)), free() > 0, "try_push");
    if (free() > 0) inside_.push_back(next_++);
  }

  void push_batch() {
    const auto most = some();
    const auto claimed = ring_.try_claim(most);
    agree(claimed, std::min(most, free()), "try_claim");
    for (std::size_t i = 0; i < claimed; ++i) ring_.claimed(i) = next_ + i;
    const auto count = random_.below(claimed + 1);
    ring_.commit(count);
    for (std::size_t i = 0; i < count; ++i) inside_.push_back(next_++);
  }

  void pop() {
    std::uint64_t element = 0;
    agree(ring_.try_pop(&element), !inside_.empty(), "try_pop");
    if (inside_.empty()) return;
    agree(element, inside_.front(), "the element");
    inside_.pop_front();
  }

  void pop_batch() {
    const auto most = some();
    const auto readable = ring_.try_readable(most);
    agree(readable, std::min(most, inside_.size()), "try_readable");
    for (std::size_t i = 0; i < readable; ++i) {
      agree(ring_.readable(i), inside_[i], "a readable element");
    }
    const auto count = random_.below(readable + 1);
    ring_.release(count);
    inside_.erase(inside_.begin(), inside_.begin() + static_cast<long>(count));
  }

  void agree(std::uint64_t ring, std::uint64_t model, const char* what) {
    if (ring == model) return;
    check::fail(__FILE__, __LINE__,
                std::string(what) + ": ring " + check::show(ring) + ", model " +
                    check::show(model) + " at step " + check::show(step_) +
                    " of history " + check::show(seed_) + ", capacity " +
                    check::show(capacity_));
  }

  const std::uint64_t seed_;
  check::Random random_;
  const std::size_t capacity_;
  std::size_t limit_;
  ipufeed::SpscRing<std::uint64_t> ring_;
  std::deque<std::uint64_t> inside_;
  std::uint64_t next_ = 1;
  bool closed_ = false;
  int step_ = 0;
};

}  // namespace

TEST(a_ring_behaves_as_a_bounded_deque) {
  for (int i = 0; i < kSeeds; ++i) History(check::seed() * 1'000'000 + i).run();
}
