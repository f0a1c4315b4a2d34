// The compiled programs of this process, by their keys: what is the same program under
// another name, on another IPU or in another session is compiled once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/mutex.h"
#include "xla/compile/ipu_executable.h"

namespace ipufeed {

// Its lock is held while its program is found or compiled: a second thread waits, and
// uses it, too.
struct ProgramEntry {
  Mutex mutex;
  std::weak_ptr<Compiled> compiled IPUFEED_GUARDED_BY(mutex);
  // times_forgotten() when it was compiled: an older one is compiled again. It stays
  // for the pipeline that runs it, and so it is found when the new one has gone: what
  // has the same key is the same.
  std::int64_t forgotten IPUFEED_GUARDED_BY(mutex) = 0;
  std::vector<std::weak_ptr<Compiled>> older IPUFEED_GUARDED_BY(mutex);

  void replace(const std::shared_ptr<Compiled>& by) IPUFEED_REQUIRES(mutex);
  std::shared_ptr<Compiled> any() const IPUFEED_REQUIRES(mutex);
};

// The key's entry, which is made if there is none. Any thread.
std::shared_ptr<ProgramEntry> entry_of(std::uint64_t key);

// Keeps a program for the next session, though its own closes: the last 32. Any thread.
void keep_program(std::shared_ptr<Compiled> compiled);

// The number of times that all programs were cleared. Any thread.
std::int64_t times_forgotten();

// Clears all programs: running ones continue, others are compiled again. Any thread.
void forget_entries();

}  // namespace ipufeed
