// Measures a dataset through a feeder and a feed, element by element, without Python.
#pragma once

#include <memory>

#include "data/feeder.h"
#include "measure/measurement.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {

// Runs on the calling thread, which is the consumer, until the options, the dataset or
// run->stop() end it. A dataset that fails is a finding (Measurement::failure), not an
// error. Errors: the dataset cannot be started; the op was cancelled.
absl::Status measure(tensorflow::OpKernelContext* ctx,
                     tensorflow::data::DatasetBase* dataset,
                     const FeederOptions& feeder_options,
                     const MeasurementOptions& options,
                     const std::shared_ptr<MeasurementRun>& run,
                     const OnEpoch& on_epoch, Measurement* out);

// The yardstick: pulls `elements` elements on the calling thread and drops them, with
// no feed, no second thread and no stamps. Fills requested, created, first and last_ns,
// elements and cpu_ns; first_ns and cpu_ns count from the end of the warm-up.
absl::Status measure_bare(tensorflow::OpKernelContext* ctx,
                          tensorflow::data::DatasetBase* dataset, bool finalize,
                          std::int64_t warm_up, std::int64_t elements,
                          Measurement* out);

}  // namespace ipufeed
