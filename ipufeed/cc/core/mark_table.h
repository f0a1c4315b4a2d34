// The progress of a run, sampled every few milliseconds, in bounded memory.
//
//   |--10 ms--|--10 ms--|-- ...        first n marks
//   |-------20 ms-------|-- ...        then every other one is dropped, and so on
//
// All fields of a mark but its time are sums from the beginning: the difference of two
// marks is what happened between them, whichever marks lie in between or were dropped.
//
// Plain data of one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ipufeed {

struct Mark {
  std::int64_t at_ns = 0;  // monotonic
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  std::int64_t starved_ns = 0;
  std::int64_t blocked_ns = 0;
  std::int64_t depth_sum = 0;  // elements in the feed, summed over all samples
  std::int64_t samples = 0;
};

class MarkTable {
 public:
  // interval_ns: between two marks, until the table is full. most: even, at least 2.
  MarkTable(std::int64_t interval_ns, std::int64_t most)
      : interval_ns_(interval_ns), most_(static_cast<std::size_t>(most)) {}

  // Whether a mark is due at that time.
  bool due(std::int64_t at_ns) const noexcept {
    return marks_.empty() || at_ns - marks_.back().at_ns >= interval_ns_;
  }

  // Adds a mark; one at the time of the last replaces it. The caller checks due().
  void add(const Mark& mark) {
    if (!marks_.empty() && marks_.back().at_ns == mark.at_ns) {
      marks_.back() = mark;
      return;
    }
    if (marks_.size() == most_) thin();
    marks_.push_back(mark);
  }

  const std::vector<Mark>& marks() const noexcept { return marks_; }

 private:
  // The first one stays.
  void thin() {
    for (std::size_t i = 0; 2 * i < marks_.size(); ++i) marks_[i] = marks_[2 * i];
    marks_.resize((marks_.size() + 1) / 2);
    interval_ns_ *= 2;
  }

  std::int64_t interval_ns_;
  const std::size_t most_;
  std::vector<Mark> marks_;
};

}  // namespace ipufeed
