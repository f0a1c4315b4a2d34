// The results of a measurement, as outputs of an op.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "measure/measurement.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace ipufeed {

// The number of outputs that set_outputs() sets.
inline constexpr int kMeasurementOutputs = 7;

// From output 0 on: names, values, epoch_table, stamps, failure_code, failure_message,
// marks; see the op IpufeedMeasureDataset.
absl::Status set_outputs(tensorflow::OpKernelContext* ctx, const Measurement& m);

// An output of int64.
absl::Status set_numbers(tensorflow::OpKernelContext* ctx, int index,
                         const std::vector<std::int64_t>& values,
                         const tensorflow::TensorShape& shape);

}  // namespace ipufeed
