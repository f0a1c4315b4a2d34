// What a compiled program asks of the CPU that runs it.
#pragma once

#include <string>

namespace ipufeed {

// A serialised executable without the features in it that are not features of a CPU but
// wishes of the compiler (+prefer-no-scatter). XLA looks for each in the CPU it loads
// the executable on, and takes two lines of errors to say that it has not found them.
// What is not an executable stays as it is.
std::string without_preferences(std::string executable);

}  // namespace ipufeed
