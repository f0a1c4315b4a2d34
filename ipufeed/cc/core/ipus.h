// How many IPUs there are.
#pragma once

namespace ipufeed {

// As many devices as are registered; which of them can be used is up to the
// configuration.
inline constexpr int kIpus = 16;

// The most IPUs that a device is made of: more than the server has.
inline constexpr int kMostChips = 1024;

}  // namespace ipufeed
