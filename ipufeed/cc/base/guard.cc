#include "base/guard.h"

#include <exception>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/mutex.h"

namespace ipufeed {
namespace {

struct Faults {
  Mutex mutex;
  std::string where IPUFEED_GUARDED_BY(mutex);
  std::int64_t left IPUFEED_GUARDED_BY(mutex) =
      0;  // places of that name until one fails
  Fault fault IPUFEED_GUARDED_BY(mutex) = Fault::kNone;
  std::map<std::string, std::int64_t> passed IPUFEED_GUARDED_BY(mutex);

  static Faults& get() {
    static auto* faults = new Faults;  // threads may outlive static objects
    return *faults;
  }

  // Counts a place; returns its fault.
  Fault pass(const char* name) {
    MutexLock lock(mutex);
    ++passed[name];
    if (fault <= Fault::kCount || (!where.empty() && where != name)) {
      return Fault::kNone;
    }
    return --left == 0 ? fault : Fault::kNone;
  }
};

}  // namespace

void set_fault(std::string where, std::int64_t nth, Fault fault) {
  Faults& faults = Faults::get();
  MutexLock lock(faults.mutex);
  faults.where = std::move(where);
  faults.left = nth;
  faults.fault = fault;
  faults.passed.clear();
  faults_wanted.store(fault != Fault::kNone, std::memory_order_relaxed);
}

std::string fault_counts() {
  Faults& faults = Faults::get();
  MutexLock lock(faults.mutex);
  std::string lines;
  for (const auto& [name, count] : faults.passed) {
    absl::StrAppend(&lines, name, "\t", count, "\n");
  }
  return lines;
}

void meet_fault(const char* where) {
  switch (Faults::get().pass(where)) {
    case Fault::kBadAlloc:
      throw std::bad_alloc();
    case Fault::kRuntimeError:
      throw std::runtime_error("a fault that a test has set");
    case Fault::kUnknown:
      throw 1;
    default:
      return;
  }
}

bool meet_allocation_fault(const char* where) {
  return Faults::get().pass(where) != Fault::kNone;
}

absl::Status status_of_exception(const char* where) noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(
          absl::StrCat("There is no memory left (std::bad_alloc in ", where, ")."));
    } catch (const std::exception& error) {
      return absl::InternalError(
          absl::StrCat(error.what(), " (an exception in ", where, ")."));
    } catch (...) {
      return absl::InternalError(absl::StrCat("An exception in ", where, "."));
    }
  } catch (...) {
    // There is no memory for the text; a status without text needs none.
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  }
}

}  // namespace ipufeed
