// The simulated IPU, `/device:IPU:n`: a TensorFlow device of its own.
#pragma once

namespace ipufeed {

// As many as are registered; which of them can be used is up to the configuration.
inline constexpr int kIpus = 16;

}  // namespace ipufeed
