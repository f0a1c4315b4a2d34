// Writes a program as XLA's text, or as a graph in Graphviz's language.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace ipufeed {

// The text of a serialised HloModuleProto. as_dot: as a graph. Any thread.
absl::StatusOr<std::string> hlo_text(const std::string& bytes, bool as_dot);

}  // namespace ipufeed
