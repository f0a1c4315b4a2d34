// A compiled program as TensorFlow starts it: on its device, in as many copies as there
// are IPUs for.
//
//   each run -> attach -> load onto the device -> run
//                                  several replicas: on an IPU each, at once
//
// A program that takes or gives elements can end half-way: its dataset ends, or it is
// stopped. Its variables must then be as they were. The new values in such a program
// are written to the memory of the old ones only behind its last call
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

// A program, also while several threads run it.
struct Compiled {
  std::uint64_t key = 0;
  std::string name;
  std::unique_ptr<xla::LocalExecutable> executable;
};

// A program with one result gives it alone, not in a tuple: how many there are.
int results_of(const xla::Shape& shape);

// What TensorFlow runs.
//   updates        whose old values are the results where the program does not run
//   shards         IPUs that one copy is spread over: as many copies run as there are
//   for observes_copies  whether it can be observed how many copies run ipu_programs
//   that it starts: valid as long as this
std::unique_ptr<xla::Executable> make_executable(
    std::shared_ptr<Compiled> compiled, std::vector<VariableUpdate> updates, int shards,
    bool observes_copies, std::vector<std::shared_ptr<Compiled>> ipu_programs);

}  // namespace ipufeed
