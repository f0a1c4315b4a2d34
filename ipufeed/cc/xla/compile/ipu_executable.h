// A compiled program as TensorFlow starts it: on its device, one copy for each `shards`
// of the device's IPUs.
//
//   each run -> attach -> load onto the device -> run
//                                  several replicas: on an IPU each, at once
//
// A program that takes or gives elements can end half-way: its dataset ends, or it is
// stopped. Its variables must then be as they were. The new values in such a program
// are written to the memory of the old ones only after its last call
// (donate_variables()), else to other memory, which the variables get when the run has
// ended well.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "xla/client/local_client.h"
#include "xla/lowering/donation.h"
#include "xla/service/executable.h"
#include "xla/shape.h"

namespace ipufeed {

// A compiled program. Threads: any; several may run it at once.
struct Compiled {
  std::uint64_t key = 0;
  std::string name;
  std::unique_ptr<xla::LocalExecutable> executable;
};

// The number of results of a program's result shape; a single one is not in a tuple.
int results_of(const xla::Shape& shape);

// What TensorFlow runs.
//   updates          variables: a program that is not run returns their old values
//   shards           IPUs of one copy: the device's IPUs / shards copies run
//   observes_copies  whether the program can observe the number of copies
//   ipu_programs     programs that it starts, kept as long as this
std::unique_ptr<xla::Executable> make_executable(
    std::shared_ptr<Compiled> compiled, std::vector<VariableUpdate> updates, int shards,
    bool observes_copies, std::vector<std::shared_ptr<Compiled>> ipu_programs);

}  // namespace ipufeed
