#include "base/messages.h"

#include <cstddef>
#include <deque>
#include <utility>

#include "core/mutex.h"
#include "tensorflow/core/platform/logging.h"

namespace ipufeed {
namespace {

// A listener that is blocked for longer gets the newest.
constexpr std::size_t kMostLines = 256;

struct Lines {
  Mutex mutex;
  CondVar come;
  std::deque<std::string> lines IPUFEED_GUARDED_BY(mutex);
  bool listened IPUFEED_GUARDED_BY(mutex) = false;

  static Lines& get() {
    static auto* const lines = new Lines;  // threads may outlive static objects
    return *lines;
  }
};

}  // namespace

void log_line(std::string line) {
  Lines& all = Lines::get();
  {
    MutexLock lock(all.mutex);
    if (all.listened) {
      if (all.lines.size() == kMostLines) all.lines.pop_front();
      all.lines.push_back(std::move(line));
      all.come.notify_one();
      return;
    }
  }
  LOG(WARNING) << line;
}

std::string next_line() {
  Lines& all = Lines::get();
  MutexLock lock(all.mutex);
  all.listened = true;
  while (all.lines.empty()) all.come.wait(all.mutex);
  std::string line = std::move(all.lines.front());
  all.lines.pop_front();
  return line;
}

}  // namespace ipufeed
