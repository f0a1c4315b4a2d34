// Canonical bytes of a program: the same wherever it was traced.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ipufeed {

// The canonical bytes of a serialised HloModuleProto, themselves one. Its map fields
// must have been written in the order of their keys. Any thread.
absl::StatusOr<std::string> canonical_bytes(std::string_view hlo);

}  // namespace ipufeed
