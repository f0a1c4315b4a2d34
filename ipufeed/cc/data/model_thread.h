// The thread of tf.data that models a pipeline for AUTOTUNE, and its end.
#pragma once

#include <functional>
#include <memory>

#include "tensorflow/core/framework/model.h"
#include "tensorflow/core/platform/env.h"

namespace ipufeed {

// Returns a thread that is woken before it is joined.
//
// TensorFlow's CancellationManager notifies the thread before IsCancelled() is true. A
// thread that runs at once, as on a busy machine, finds nothing cancelled and sleeps
// through the rest of its period, which grows to a minute; the destructor of the
// dataset's iterator, which joins it, would wait as long. It destroys the thread after
// the cancellation, so that a second notification here is not lost.
//
// model: returns the model that the thread works on, or null. Called by the thread that
// destroys the returned one.
std::unique_ptr<tensorflow::Thread> woken_at_end(
    std::unique_ptr<tensorflow::Thread> thread,
    std::function<std::shared_ptr<tensorflow::data::model::Model>()> model);

}  // namespace ipufeed
