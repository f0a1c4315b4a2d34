// The feeds of a program: from its first use of one to its end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "feeds/infeed.h"
#include "feeds/outfeed.h"
#include "run/program.h"

namespace ipufeed {

// Leases the feed with this number for the program, see Program::lease(). Called by the
// program's threads. Fails if another program has it, or the infeed does not exist; an
// outfeed is made if there is none.
absl::Status lease_infeed(Program& program, std::int64_t number, Infeed** out);
absl::Status lease_outfeed(Program& program, std::int64_t number, OutfeedMode mode,
                           std::size_t capacity, Outfeed** out);

}  // namespace ipufeed
