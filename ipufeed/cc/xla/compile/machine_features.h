// The CPU features that a compiled program requires, without false errors about them.
#pragma once

#include <string>

namespace ipufeed {

// Returns a serialised executable without those features in it that are preferences of
// the compiler (+prefer-no-scatter) and not features of a CPU. XLA compares each with
// the CPU on which it loads the executable, and logs two lines of errors for the absent
// ones. A string that is not an executable is returned unchanged. Any thread.
std::string without_preferences(std::string executable);

// During its lifetime the process's log has fatal lines only: XLA's loader itself adds
// such preferences to an executable that it reads, and then reports that the CPU lacks
// them. An error of the load is in its status. Nests, on any thread.
class QuietLoading {
 public:
  QuietLoading();
  ~QuietLoading();
  QuietLoading(const QuietLoading&) = delete;
  QuietLoading& operator=(const QuietLoading&) = delete;
};

}  // namespace ipufeed
