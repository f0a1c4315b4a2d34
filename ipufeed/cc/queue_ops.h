// What the kernels of the queues' ops share: infeed_ops.cc, outfeed_ops.cc.
//
// A queue op takes the number of its feed as an input, so that compiled programs do not
// depend on it, and a token, which it also gives: whoever builds a graph hands the
// token of one queue op to the next, and so no compiler can change their order. (XLA
// keeps side effects, but not the order of those that do not depend on each other.)

#ifndef IPUFEED_CC_QUEUE_OPS_H_
#define IPUFEED_CC_QUEUE_OPS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ipufeed {

// The shapes of an op that gives an element of a feed in its first outputs; batched:
// any number of elements.
absl::Status component_shapes(tensorflow::shape_inference::InferenceContext* c,
                              bool batched);

// The number of a feed, among an op's inputs.
inline std::int64_t number_of(tensorflow::OpKernelContext* ctx, int input) {
  return ctx->input(input).scalar<std::int64_t>()();
}

}  // namespace ipufeed

#endif  // IPUFEED_CC_QUEUE_OPS_H_
