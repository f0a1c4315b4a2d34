#include "xla/compile/program_table.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <iterator>
#include <map>
#include <utility>

#include "xla/compile/compiler.h"

namespace ipufeed {
namespace {

std::atomic<std::int64_t> forgettings{0};
std::atomic<std::int64_t> entries_count{0};

// Whether its programs are destroyed, and no thread uses it: then only the table has
// it, and its lock is free.
bool is_over(const std::shared_ptr<ProgramEntry>& entry) {
  if (entry.use_count() != 1 || !entry->mutex.try_lock()) return false;
  MutexHeld held(entry->mutex);
  const auto is_expired = [](const auto& each) { return each.expired(); };
  return is_expired(entry->compiled) &&
         std::all_of(entry->older.begin(), entry->older.end(), is_expired);
}

struct LastPrograms {
  Mutex mutex;
  std::deque<std::shared_ptr<Compiled>> programs IPUFEED_GUARDED_BY(mutex);

  static LastPrograms& get() {
    static auto* const last = new LastPrograms;
    return *last;
  }
};

}  // namespace

void ProgramEntry::replace(const std::shared_ptr<Compiled>& by) {
  older.erase(std::remove_if(older.begin(), older.end(),
                             [](const auto& each) { return each.expired(); }),
              older.end());
  if (!compiled.expired()) older.push_back(compiled);
  compiled = by;
}

std::shared_ptr<Compiled> ProgramEntry::any() const {
  std::shared_ptr<Compiled> found = compiled.lock();
  for (const auto& each : older) {
    if (found != nullptr) break;
    found = each.lock();
  }
  return found;
}

std::shared_ptr<ProgramEntry> entry_of(std::uint64_t key) {
  struct Table {
    Mutex mutex;
    std::map<std::uint64_t, std::shared_ptr<ProgramEntry>> entries
        IPUFEED_GUARDED_BY(mutex);
  };
  static auto* const table = new Table;
  MutexLock lock(table->mutex);
  auto& entries = table->entries;
  const auto found = entries.find(key);
  if (found != entries.end()) return found->second;
  // A program that is destroyed leaves its entry. One that only the table has is in use
  // by no thread, and without the lock no thread gets hold of it.
  for (auto i = entries.begin(); i != entries.end();) {
    i = is_over(i->second) ? entries.erase(i) : std::next(i);
  }
  entries_count.store(static_cast<std::int64_t>(entries.size()) + 1,
                      std::memory_order_relaxed);
  return entries[key] = std::make_shared<ProgramEntry>();
}

void keep_program(std::shared_ptr<Compiled> compiled) {
  constexpr std::size_t kKeptPrograms = 32;
  LastPrograms& last = LastPrograms::get();
  std::shared_ptr<Compiled> oldest;  // freed without the lock
  MutexLock lock(last.mutex);
  last.programs.push_back(std::move(compiled));
  if (last.programs.size() <= kKeptPrograms) return;
  oldest = std::move(last.programs.front());
  last.programs.pop_front();
}

std::int64_t known_programs() { return entries_count.load(std::memory_order_relaxed); }

std::int64_t times_forgotten() { return forgettings.load(std::memory_order_relaxed); }

void forget_entries() {
  forgettings.fetch_add(1, std::memory_order_relaxed);
  LastPrograms& last = LastPrograms::get();
  std::deque<std::shared_ptr<Compiled>> gone;  // freed without the lock
  MutexLock lock(last.mutex);
  gone.swap(last.programs);
}

}  // namespace ipufeed
