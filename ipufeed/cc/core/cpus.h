// The number of CPUs that this process may use, often fewer than the machine has.
#pragma once

#include <sched.h>

#include <cstdio>
#include <cstring>

namespace ipufeed {

// CPUs in the affinity mask of the calling thread, cut by the quota of the control
// group (version 2's cpu.max at the usual mount point; absent or "max" means no quota).
// A quota of 1.5 CPUs counts as 1: the second is not available when needed. At
// least 1.
inline int usable_cpus() {
  int cpus = 1;
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) cpus = CPU_COUNT(&mask);
  if (std::FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "re")) {
    double quota = 0, period = 0;
    if (std::fscanf(file, "%lf %lf", &quota, &period) == 2 && period > 0) {
      const int whole = static_cast<int>(quota / period);
      if (whole < cpus) cpus = whole;
    }
    std::fclose(file);
  }
  return cpus < 1 ? 1 : cpus;
}

}  // namespace ipufeed
