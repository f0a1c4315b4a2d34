// The devices' configuration, for all that runs on them.
#pragma once

namespace ipufeed {

// What becomes of programs that are started.
enum class RunMode : int {
  kRun = 0,
  kZeros = 1,   // results are zeros, variables and feeds stay: PRE_COMPILE
  kRefuse = 2,  // an error: NEVER
};
void set_run_mode(RunMode mode);
RunMode run_mode();

// How many IPUs a device is made of; 1 unless the configuration sets another number.
// Any thread.
int ipus_of(int ordinal);
void set_ipus(int ordinal, int count);

}  // namespace ipufeed
