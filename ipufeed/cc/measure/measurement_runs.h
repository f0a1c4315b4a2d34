// Running measurements by number, so that Python can follow and stop them.
#pragma once

#include <cstdint>
#include <memory>

#include "measure/measurement.h"

namespace ipufeed {

// The run that ipufeed_run_new() numbered, or a fresh one that is not followed, for
// number 0 and for numbers that are not (or no longer) known.
std::shared_ptr<MeasurementRun> run_of(std::int64_t number);

}  // namespace ipufeed
