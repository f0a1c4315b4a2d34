// Only named by the headers under test.
#pragma once

#include "absl/status/status.h"

namespace absl {

template <class T>
class StatusOr;

}  // namespace absl
