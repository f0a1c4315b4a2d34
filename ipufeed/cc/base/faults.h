// Failures on request, for tests: each boundary that guard.h watches, and each place
// that allocates a tensor, checks here whether it must fail this time.
//
//   ipufeed_set_fault("IpufeedEnqueue", 3, 1)   the third one throws std::bad_alloc
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace ipufeed {

enum class Fault : int {
  kNone = 0,          // no failures, no counts
  kCount = 1,         // places are counted
  kBadAlloc = 2,      // throws std::bad_alloc; of an allocation: out of memory
  kRuntimeError = 3,  // throws std::runtime_error
  kUnknown = 4,       // throws an int
};

// Relaxed: a test sets it before it starts what is to fail.
inline std::atomic<bool> faults_wanted{false};

// The n-th place of this name (any, if it is empty) fails, from 1 and once. Counts
// begin at 0.
void set_fault(std::string where, std::int64_t nth, Fault fault);

// A line for each place passed since set_fault(): its name, a tab, how often.
std::string fault_counts();

// The slow half of fault_point().
void meet_fault(const char* where);

// Whether an allocation is to fail.
bool meet_allocation_fault(const char* where);

inline void fault_point(const char* where) {
  if (faults_wanted.load(std::memory_order_relaxed)) meet_fault(where);
}

inline bool allocation_fails(const char* where) {
  return faults_wanted.load(std::memory_order_relaxed) && meet_allocation_fault(where);
}

}  // namespace ipufeed
