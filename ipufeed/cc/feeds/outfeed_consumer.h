// Measures a program by its results: reads them from the outfeed, and counts them.
//
//   program --> outfeed --> OutfeedConsumer --> counts, stamps, epochs, marks
//                               |  ^
//                               |  MeasurementRun: stop(), end_pass(), end_source()
//                               +--> stops the programs, once it is complete
//
// The stamp of an element is in its result: when the program had it, or when the step
// that it was for was over. Nothing depends on when the consumer reads it.
//
// While results arrive fast the consumer sleeps between two reads, so that the program
// need not wake it for each; else it sleeps until one arrives, the programs end, the
// measurement is stopped, or its time is over.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "feeds/outfeed.h"
#include "measure/measurement.h"
#include "run/leased.h"

namespace ipufeed {

// The signature of the programs' results, and how the host reads them.
struct ResultsMeasured {
  // The component with the stamps: int32 [2 * words], int64 in halves. The last one is
  // the element's stamp, and the rows are kept where there are several.
  std::int64_t component = 0;
  std::int64_t words = 1;
  std::int64_t element_bytes = 0;  // that the program reads for a result
  std::int64_t element_samples = 0;
  std::int64_t read_ns = 0;  // time of the host for a result
  // The time limit of the wait for stopped programs: one may be in the initializer of
  // its next pass, which runs Python code of the dataset. Shorter than the caller's
  // limit (STOP_GRACE_S in interruptible.py).
  std::int64_t stop_grace_ns = 1'500'000'000;
};

// The results in addition to a Measurement.
struct ResultsFound {
  // Of results that the consumer slept for: from the stamp to when it had them, in ns.
  std::vector<std::int64_t> latencies_ns;
  std::vector<std::int64_t> rows;  // [n, words], of the elements that have a stamp
  FeedStats infeed, outfeed;       // at the first result
  std::int64_t stored_bytes = 0;   // the most that lay in the outfeed's store
};

// Runs on the calling thread until the options or run->stop() end it, in which case it
// stops the programs, and until run->end_source(), for which it then waits a moment.
// infeed: the number of the one that the programs read. An error: the results are not
// as in `results`; the programs are then stopped, too.
absl::Status measure_outfeed(std::int64_t infeed, const std::shared_ptr<Outfeed>& feed,
                             const MeasurementOptions& options,
                             const ResultsMeasured& results,
                             const std::shared_ptr<MeasurementRun>& run,
                             Measurement* out, ResultsFound* found);

}  // namespace ipufeed
