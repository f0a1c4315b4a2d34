// Random numbers of a seed: those of TensorFlow's stateless ops on the CPU. XLA's own
// are others, and a program draws the same compiled and on the executor.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "tensorflow/core/framework/types.pb.h"

namespace ipufeed {

// The Python side has the same numbers: ipufeed/device/random/ops.py.
enum class Distribution : std::int64_t {
  kUniform = 0,          // in [0, 1)
  kNormal = 1,           // mean 0, standard deviation 1
  kTruncatedNormal = 2,  // the same, within two standard deviations
  kGumbel = 3,           // -log(-log(uniform)); float32 only
};

// Writes `count` numbers. seed: two numbers. dtype: half, bfloat16, float or double.
absl::Status fill_random(Distribution distribution, const std::int32_t* seed,
                         tensorflow::DataType dtype, std::int64_t count, void* data);

}  // namespace ipufeed
