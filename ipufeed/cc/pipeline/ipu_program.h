// The program of one IPU of a pipeline: it has a key, a place in the cache and lines in
// the log as any other, and is started from within another program.
//
//   lowering of the pipeline's op -> build_ipu_program() -> key, into the outer
//   program call in the outer program     -> run_ipu_program(key)
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tensorflow {
class XlaCompiler;
struct XlaCompilationResult;
}  // namespace tensorflow

namespace ipufeed {

class Ipu;

// Bytes owned elsewhere.
struct Memory {
  void* data = nullptr;
  std::size_t bytes = 0;
};

// Compiles the lowered program, or finds it. The program that is lowered next on this
// thread keeps it alive.
absl::StatusOr<std::uint64_t> build_ipu_program(
    const tensorflow::XlaCompiler& compiler,
    const tensorflow::XlaCompilationResult& result);

// Runs it on the calling thread and the IPU's pool. Arguments are only read; results
// are written when it has ended without an error.
absl::Status run_ipu_program(std::uint64_t key, const Ipu& ipu,
                             const std::vector<Memory>& arguments,
                             const std::vector<Memory>& results);

}  // namespace ipufeed
