// The common part of the queue ops' kernels: infeed_ops.cc, outfeed_ops.cc.
//
// A queue op takes the number of its feed as an input, so that compiled programs do not
// depend on it, and a token, which it also gives: the token of one queue op goes to the
// next, so that no compiler can change their order. (XLA keeps side effects, but not
// the order of those that do not depend on each other.) Loops, branches and functions
// between them: token_chain.h.

#ifndef IPUFEED_CC_QUEUE_OPS_H_
#define IPUFEED_CC_QUEUE_OPS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ipufeed {

// The shapes of an op whose first outputs are an element of a feed; batched:
// any number of elements.
absl::Status component_shapes(tensorflow::shape_inference::InferenceContext* c,
                              bool batched);

// InvalidArgument unless an op has a shape for each dtype.
absl::Status check_signature(std::size_t dtypes, std::size_t shapes);

// InvalidArgument for a ring of no, or of too many, elements.
absl::Status check_capacity(std::int64_t capacity);

// The shapes of an op with a token for its one output. scalars: inputs that must be.
absl::Status token_shape_fn(tensorflow::shape_inference::InferenceContext* c,
                            std::initializer_list<int> scalars);

// The number of a feed, among an op's inputs: a scalar, see check_scalars().
inline std::int64_t number_of(tensorflow::OpKernelContext* ctx, int input) {
  return ctx->input(input).scalar<std::int64_t>()();
}

}  // namespace ipufeed

#endif  // IPUFEED_CC_QUEUE_OPS_H_
