// XLA's headers name this class in functions that are never called from here, and the
// TensorFlow wheel does not have MLIR's headers.
#pragma once

namespace mlir {
class Operation;
}  // namespace mlir
