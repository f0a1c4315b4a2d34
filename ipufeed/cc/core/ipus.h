// How many IPU devices there are, and of how many IPUs one is made.
#pragma once

namespace ipufeed {

// As many as are registered; which of them can be used is up to the configuration.
inline constexpr int kDevices = 16;

// The most IPUs that a device is made of: more than the server has.
inline constexpr int kMostIpus = 1024;

}  // namespace ipufeed
