// What a compiled program asks of the CPU that runs it.
#pragma once

#include <string>

namespace ipufeed {

// A serialised executable without the features in it that are not features of a CPU but
// wishes of the compiler (+prefer-no-scatter). XLA looks for each in the CPU it loads
// the executable on, and logs two lines of errors where it has not found them.
// What is not an executable stays as it is.
std::string without_preferences(std::string executable);

// During its lifetime TensorFlow's log has fatal lines only: XLA's loader adds such
// wishes itself to what it reads, and then reports that the CPU lacks them. What fails
// at loading is in its status. Nests, on any thread.
class QuietLoading {
 public:
  QuietLoading();
  ~QuietLoading();
  QuietLoading(const QuietLoading&) = delete;
  QuietLoading& operator=(const QuietLoading&) = delete;
};

}  // namespace ipufeed
