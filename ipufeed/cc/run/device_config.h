// The devices' configuration, for all that runs on them.
#pragma once

namespace ipufeed {

// How started programs behave.
enum class RunMode : int {
  kRun = 0,
  kZeros = 1,   // results are zeros, variables and feeds stay: PRE_COMPILE
  kRefuse = 2,  // an error: NEVER
};
void set_run_mode(RunMode mode);
RunMode run_mode();

// The number of IPUs of a device; 1 unless the configuration sets another.
// Any thread.
int ipus_of(int ordinal);
void set_ipus(int ordinal, int count);

}  // namespace ipufeed
