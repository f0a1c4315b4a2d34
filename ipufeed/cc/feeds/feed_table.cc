#include "feeds/feed_table.h"

#include <pthread.h>

#include <atomic>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/mutex.h"
#include "feeds/infeed.h"
#include "feeds/outfeed.h"
#include "tensorflow/core/platform/logging.h"

namespace ipufeed {
namespace {

// A child of fork() has the table but none of the threads.
std::atomic<bool> forked{false};

absl::Status check_not_forked() {
  if (!forked.load(std::memory_order_relaxed)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "This process was forked from one that uses ipufeed's queues, and has none of "
      "their threads. Start processes with the `spawn` method and make the queues "
      "there.");
}

template <class F>
class Table {
 public:
  std::shared_ptr<F> find(std::int64_t number) {
    ReaderLock lock(mutex_);
    const auto found = feeds_.find(number);
    return found == feeds_.end() ? nullptr : found->second;
  }

  // replaces: whether the one that is there may go.
  template <class Replaces>
  std::shared_ptr<F> add(std::shared_ptr<F> feed, Replaces&& replaces) {
    WriterLock lock(mutex_);
    auto& slot = feeds_[feed->number()];
    if (slot == nullptr || replaces(*slot)) slot = std::move(feed);
    return slot;
  }

  void remove(const std::shared_ptr<F>& feed) {
    WriterLock lock(mutex_);
    const auto found = feeds_.find(feed->number());
    if (found != feeds_.end() && found->second == feed) feeds_.erase(found);
  }

  std::vector<std::shared_ptr<F>> all() {
    ReaderLock lock(mutex_);
    std::vector<std::shared_ptr<F>> feeds;
    for (const auto& [number, feed] : feeds_) feeds.push_back(feed);
    return feeds;
  }

  void set_name(std::int64_t number, const std::string& name) {
    WriterLock lock(mutex_);
    names_[number].name = name;
  }
  void forget_name(std::int64_t number) {
    WriterLock lock(mutex_);
    names_.erase(number);
  }
  std::string name(std::int64_t number) {
    ReaderLock lock(mutex_);
    const auto found = names_.find(number);
    return found == names_.end() ? std::to_string(number) : found->second.name;
  }

  // Of a number without a name always.
  bool warns_first(std::int64_t number) {
    WriterLock lock(mutex_);
    const auto found = names_.find(number);
    return found == names_.end() || !std::exchange(found->second.has_warned, true);
  }

  std::int64_t feeds() {
    ReaderLock lock(mutex_);
    return static_cast<std::int64_t>(feeds_.size());
  }
  std::int64_t names() {
    ReaderLock lock(mutex_);
    return static_cast<std::int64_t>(names_.size());
  }

 private:
  struct Named {
    std::string name;
    bool has_warned = false;
  };

  SharedMutex mutex_;
  std::unordered_map<std::int64_t, std::shared_ptr<F>> feeds_
      IPUFEED_GUARDED_BY(mutex_);
  std::unordered_map<std::int64_t, Named> names_ IPUFEED_GUARDED_BY(mutex_);
};

struct Tables {
  Table<Infeed> infeeds;
  Table<Outfeed> outfeeds;

  static Tables& get() {
    static auto* tables = [] {
      pthread_atfork(nullptr, nullptr,
                     [] { forked.store(true, std::memory_order_relaxed); });
      return new Tables;  // never destroyed: see feeder.cc
    }();
    return *tables;
  }
};

// One that outlived its session, and that no program uses.
bool replaceable(const Infeed& feed) { return feed.orphaned() && !feed.taken(); }

absl::Status already_exists(const Infeed& feed) {
  return absl::AlreadyExistsError(absl::StrCat(
      "Infeed with id='", feed.name(),
      "' already exists. Run the queue's `deleter` before its `initializer` runs "
      "again."));
}

}  // namespace

void set_infeed_name(std::int64_t number, const std::string& name) {
  Tables::get().infeeds.set_name(number, name);
}
void set_outfeed_name(std::int64_t number, const std::string& name) {
  Tables::get().outfeeds.set_name(number, name);
}
void forget_infeed_name(std::int64_t number) {
  Tables::get().infeeds.forget_name(number);
}
void forget_outfeed_name(std::int64_t number) {
  Tables::get().outfeeds.forget_name(number);
}
void warn_unless_executed(std::int64_t number, const Outfeed* feed) {
  const bool executed = feed != nullptr && (feed->runs() != 0 || feed->taken());
  // Once: a thread that polls until the program begins would fill the log.
  if (executed || !Tables::get().outfeeds.warns_first(number)) return;
  LOG(WARNING) << "Trying to dequeue elements from the outfeed queue with id="
               << outfeed_name(number)
               << " which has not executed yet. Make sure to execute the program "
                  "with the outfeed before trying to dequeue an outfeed.";
}
TableSizes table_sizes() {
  Tables& tables = Tables::get();
  return {tables.infeeds.feeds(), tables.infeeds.names(), tables.outfeeds.feeds(),
          tables.outfeeds.names()};
}
std::string infeed_name(std::int64_t number) {
  return Tables::get().infeeds.name(number);
}
std::string outfeed_name(std::int64_t number) {
  return Tables::get().outfeeds.name(number);
}

absl::Status find_infeed(std::int64_t number, std::shared_ptr<Infeed>* out) {
  TF_RETURN_IF_ERROR(check_not_forked());
  *out = Tables::get().infeeds.find(number);
  if (*out != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "Trying to access an infeed dataset iterator which has not been created. Did you "
      "initialize the infeed_queue '",
      infeed_name(number), "'?"));
}

absl::Status check_no_infeed(std::int64_t number) {
  TF_RETURN_IF_ERROR(check_not_forked());
  const auto there = Tables::get().infeeds.find(number);
  if (there == nullptr || replaceable(*there)) return absl::OkStatus();
  return already_exists(*there);
}

absl::Status add_infeed(const std::shared_ptr<Infeed>& feed) {
  TF_RETURN_IF_ERROR(check_not_forked());
  const auto there = Tables::get().infeeds.add(feed, replaceable);
  return there == feed ? absl::OkStatus() : already_exists(*feed);
}

absl::Status remove_infeed(std::int64_t number, std::shared_ptr<Infeed>* removed) {
  TF_RETURN_IF_ERROR(check_not_forked());
  auto feed = Tables::get().infeeds.find(number);
  if (feed == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "Infeed with id='", infeed_name(number),
        "'. Make sure that you have run the initializer for this infeed before "
        "attempting to delete it."));
  }
  // Taken permanently: no program can lease it any more.
  if (!feed->take_for_good()) {
    return absl::FailedPreconditionError(
        absl::StrCat("Cannot delete infeed with id='", feed->name(),
                     "' while in use by a program. Wait for its end, or stop "
                     "it, and delete it then."));
  }
  Tables::get().infeeds.remove(feed);
  *removed = std::move(feed);
  return absl::OkStatus();
}

absl::Status find_outfeed(std::int64_t number, std::shared_ptr<Outfeed>* out) {
  TF_RETURN_IF_ERROR(check_not_forked());
  *out = Tables::get().outfeeds.find(number);
  if (*out != nullptr) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("Outfeed with id='", outfeed_name(number),
                                          "' has not been enqueued to yet."));
}

absl::Status find_or_add_outfeed(std::shared_ptr<Outfeed> feed,
                                 std::shared_ptr<Outfeed>* out) {
  TF_RETURN_IF_ERROR(check_not_forked());
  *out =
      Tables::get().outfeeds.add(std::move(feed), [](const Outfeed&) { return false; });
  return absl::OkStatus();
}

void note_failure_at_outfeeds(int ordinal) {
  for (const auto& feed : Tables::get().outfeeds.all()) {
    if (feed->ordinal() == ordinal && !feed->taken()) feed->note_failure_elsewhere();
  }
}

absl::Status remove_outfeed(std::int64_t number) {
  TF_RETURN_IF_ERROR(check_not_forked());
  auto feed = Tables::get().outfeeds.find(number);
  if (feed == nullptr) return absl::OkStatus();
  if (!feed->take(0).ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("Cannot delete outfeed with id='", feed->name(),
                     "' while in use by a program. Wait for its end, or stop "
                     "it, and delete it then."));
  }
  Tables::get().outfeeds.remove(feed);
  feed->close();
  return absl::OkStatus();
}

}  // namespace ipufeed
