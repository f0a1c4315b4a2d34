// The number of IPU devices, and the most IPUs of one.
#pragma once

namespace ipufeed {

// The registered devices; the configuration decides which of them are usable.
inline constexpr int kDevices = 16;

// The most IPUs of a device: more than a server has.
inline constexpr int kMostIpus = 1024;

}  // namespace ipufeed
