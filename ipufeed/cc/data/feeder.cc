#include "data/feeder.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include "base/eager.h"
#include "base/guard.h"
#include "base/trace.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "core/test_hooks.h"
#include "data/host_device.h"
#include "data/payload.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace ipufeed {
namespace {

// Every feeder whose thread may still run, for the interpreter's exit. Never destroyed:
// a feeder may end after static objects are destroyed.
struct Registry {
  Mutex mutex;
  std::vector<std::weak_ptr<Feeder>> feeders IPUFEED_GUARDED_BY(mutex);
  // Those whose device has been destroyed, so that only this list owns them.
  std::vector<std::shared_ptr<Feeder>> orphans IPUFEED_GUARDED_BY(mutex);

  // [1] replace() -> get(): the registry that the pointer leads to is complete.
  static Registry& get() { return *current().load(std::memory_order_acquire); }

  // In a child of fork(): it has none of its parent's feeders.
  static void replace() { current().store(new Registry, std::memory_order_release); }

  static std::atomic<Registry*>& current() {
    static auto* registry = new std::atomic<Registry*>(new Registry);
    return *registry;
  }

  std::vector<std::shared_ptr<Feeder>> running() {
    MutexLock lock(mutex);
    std::vector<std::shared_ptr<Feeder>> running;
    std::vector<std::weak_ptr<Feeder>> kept;
    for (auto& weak : feeders) {
      auto feeder = weak.lock();
      if (feeder == nullptr || feeder->wait_finished(0)) continue;
      running.push_back(std::move(feeder));
      kept.push_back(std::move(weak));
    }
    feeders = std::move(kept);
    orphans.erase(std::remove_if(orphans.begin(), orphans.end(),
                                 [](auto& orphan) { return orphan->wait_finished(0); }),
                  orphans.end());
    return running;
  }
};

std::atomic<bool> interpreter_ends{false};

// The time limit of the interpreter's exit for datasets that are being destroyed, in
// total: enough on a loaded machine.
constexpr std::int64_t kTakesDownNs = 20'000'000'000;

// The first and the longest interval at which a feeder that waits at one of several
// rings polls for room; see deal().
constexpr std::int64_t kDealNs = 5'000'000;
constexpr std::int64_t kLongestDealNs = 320'000'000;

// The time limit of a device's destruction for its feeders, in total.
constexpr std::int64_t kLastGraceNs = 100'000'000;

// For a device's destruction: stops its feeders, waits a moment, and keeps those that
// still run. Their device is detached when it is destroyed: see Host.
void stop_or_keep(const std::vector<std::shared_ptr<Feeder>>& feeders) {
  for (const auto& feeder : feeders) feeder->stop();
  const std::int64_t deadline = now_ns() + kLastGraceNs;
  for (const auto& feeder : feeders) {
    if (feeder->wait_finished(std::max<std::int64_t>(0, deadline - now_ns()))) continue;
    auto& registry = Registry::get();
    MutexLock lock(registry.mutex);
    registry.orphans.push_back(feeder);
  }
}

// The feeders that use one device. The device's resource manager owns it and so
// destroys it with the device, before what the feeders use of it; those of a session
// have ended by then, see SessionFeeders.
class DeviceFeeders : public tensorflow::ResourceBase {
 public:
  explicit DeviceFeeders(tensorflow::core::RefCountPtr<Host> host)
      : host_(std::move(host)) {}

  ~DeviceFeeders() override { stop_or_keep(feeders_); }

  void add(std::shared_ptr<Feeder> feeder) {
    forget_finished();
    MutexLock lock(mutex_);
    feeders_.push_back(std::move(feeder));
  }

  // A feeder that has finished needs no keeper; what is left in its feed is freed with
  // it.
  void forget_finished() {
    MutexLock lock(mutex_);
    feeders_.erase(std::remove_if(feeders_.begin(), feeders_.end(),
                                  [](auto& old) { return old->wait_finished(0); }),
                   feeders_.end());
  }

  std::string DebugString() const override { return "the feeders of a device"; }

 private:
  // Detached from the device when the feeders have been waited for.
  const tensorflow::core::RefCountPtr<Host> host_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Feeder>> feeders_ IPUFEED_GUARDED_BY(mutex_);
};

absl::Status find_keeper(tensorflow::OpKernelContext* ctx, DeviceFeeders** keeper) {
  tensorflow::core::RefCountPtr<Host> host;
  TF_RETURN_IF_ERROR(Host::find(ctx, &host));
  auto* resources = ctx->resource_manager();
  return resources->LookupOrCreate<DeviceFeeders>(
      resources->default_container(), "ipufeed_feeders", keeper,
      [&host](DeviceFeeders** created) {
        *created = new DeviceFeeders(std::move(host));
        return absl::OkStatus();
      });
}

// The memory of an element. A variant's own size leaves out the tensors in
// it; an opaque one may be of any size, and is not small.
std::int64_t held_bytes(const Element& element) {
  std::int64_t bytes = 0;
  for (const auto& component : element.components) {
    bytes += static_cast<std::int64_t>(component.TotalBytes());
    if (tensorflow::DataTypeCanUseMemcpy(component.dtype())) continue;
    if (component.dtype() == tensorflow::DT_STRING) continue;
    Payload payload;
    add_payload(component, &payload);
    bytes += payload.bytes + payload.opaque * (kSmallBytes + 1);
  }
  return bytes;
}

std::vector<std::unique_ptr<ElementFeed>> make_feeds(const FeederOptions& options) {
  std::vector<std::unique_ptr<ElementFeed>> feeds;
  for (std::size_t i = 0; i < std::max<std::size_t>(1, options.rings); ++i) {
    feeds.push_back(std::make_unique<ElementFeed>(
        std::max(options.capacity, options.small_capacity)));
  }
  return feeds;
}

}  // namespace

absl::Status Feeder::start(tensorflow::OpKernelContext* ctx,
                           tensorflow::data::DatasetBase* dataset,
                           const FeederOptions& options, std::shared_ptr<Feeder>* out) {
  std::unique_ptr<DatasetIterator> iterator;
  TF_RETURN_IF_ERROR(DatasetIterator::create(ctx, dataset, options.finalize, &iterator,
                                             options.threads, options.modelled));
  std::shared_ptr<Feeder> feeder(new Feeder(std::move(iterator), options));
  DeviceFeeders* keeper = nullptr;
  TF_RETURN_IF_ERROR(find_keeper(ctx, &keeper));
  tensorflow::core::ScopedUnref unref(keeper);
  // The thread starts last: from here on nothing can fail, and the destructor of a
  // feeder without a thread waits for nothing.
  keeper->add(feeder);
  {
    auto& registry = Registry::get();
    MutexLock lock(registry.mutex);
    registry.feeders.push_back(feeder);
  }
  // Under the lock, so that a thread that finds the feeder finished also finds its
  // thread.
  MutexLock lock(feeder->finish_mutex_);
  try {
    feeder->thread_ = std::thread([raw = feeder.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    feeder->finished_ = true;
    return absl::ResourceExhaustedError(
        std::string("the feeder's thread could not be started: ") + error.what());
  }
  *out = feeder;
  return absl::OkStatus();
}

SessionFeeders::~SessionFeeders() {
  std::vector<std::shared_ptr<Feeder>> running;
  for (const auto& weak : feeders_) {
    if (auto feeder = weak.lock()) running.push_back(std::move(feeder));
  }
  stop_or_keep(running);
}

void SessionFeeders::add(tensorflow::OpKernelContext* ctx,
                         const std::shared_ptr<Feeder>& feeder) {
  if (is_eager(ctx)) return;  // its kernels come and go at any time
  MutexLock lock(mutex_);
  feeders_.erase(std::remove_if(feeders_.begin(), feeders_.end(),
                                [](auto& weak) { return weak.expired(); }),
                 feeders_.end());
  feeders_.push_back(feeder);
}

Feeder::Feeder(std::unique_ptr<DatasetIterator> iterator, const FeederOptions& options)
    : options_(options),
      feeds_(make_feeds(options)),
      iterator_(std::move(iterator)),
      cancellation_(iterator_->cancellation()),
      begun_(!options.held) {}

Feeder::~Feeder() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void Feeder::begin() {
  MutexLock lock(begin_mutex_);
  begun_ = true;
  begin_.notify_all();
}

void Feeder::stop() {
  for (const auto& feed : feeds_) feed->cancel();
  cancellation_->StartCancel();
  begin();
}

// False if it has been stopped since.
bool Feeder::wait_for_begin() {
  MutexLock lock(begin_mutex_);
  while (!begun_) begin_.wait(begin_mutex_);
  return feeds_[0]->state() != FeedState::kCancelled;
}

void Feeder::drop() {
  stop();
  MutexLock lock(finish_mutex_);
  dropped_ = true;
  drop_elements();
}

// In the place of the reader.
void Feeder::drop_elements() {
  for (const auto& feed : feeds_) feed->drop_elements();
}

bool Feeder::finish(tensorflow::OpKernelContext* ctx, std::int64_t timeout_ns) {
  stop();
  if (!wait_finished(timeout_ns)) return false;
  DeviceFeeders* keeper = nullptr;
  if (find_keeper(ctx, &keeper).ok()) {
    tensorflow::core::ScopedUnref unref(keeper);
    keeper->forget_finished();
  }
  return true;
}

bool Feeder::wait_finished(std::int64_t timeout_ns) {
  MutexLock lock(finish_mutex_);
  if (timeout_ns == kNoDeadline) {
    while (!finished_) finish_.wait(finish_mutex_);
  } else {
    const std::int64_t deadline_ns = now_ns() + timeout_ns;
    while (!finished_) {
      const std::int64_t left_ns = deadline_ns - now_ns();
      if (left_ns <= 0) return false;
      finish_.wait_for_ns(finish_mutex_, left_ns);
    }
  }
  // All that is left of run() is its return, which needs no lock.
  if (thread_.joinable()) thread_.join();
  return true;
}

void Feeder::run() {
  pthread_setname_np(pthread_self(), "ipufeed_feeder");
  const absl::Status status = guarded("a feeder", [this] { return feed_all(); });
  // The reader learns of the end first: taking a dataset down takes time that is not
  // the pipeline's.
  cpu_ns_.store(thread_cpu_ns(), std::memory_order_relaxed);
  ended_.store(status.ok() && !refused_, std::memory_order_relaxed);  // before any ring
  for (const auto& feed : feeds_) {
    if (refused_) {
      feed->cancel();
    } else if (status.ok()) {
      feed->end();
    } else {
      feed->fail(status);
    }
    IPUFEED_RING_ENDED();
  }
  // First this store, then the load; the end of the process has them the other way
  // round (stop_all_feeders), and all four are seq_cst: one of the two sees the other.
  takes_down_.store(true);
  if (interpreter_ends.load()) {
    // A dataset's functions keep stack traces, whose destructor takes Python's lock,
    // and Python ends a thread that requests it now: in a destructor, which aborts the
    // process.
    static_cast<void>(iterator_.release());
  } else {
    iterator_.reset();
  }
  // Under the lock to the end: a waiter may destroy this object once it has the lock.
  MutexLock lock(finish_mutex_);
  if (dropped_) drop_elements();
  finished_ = true;
  finish_.notify_all();
}

absl::Status Feeder::feed_all() {
  if (!wait_for_begin()) {
    refused_ = true;
    return absl::OkStatus();
  }
  Element element;
  std::int64_t count = 0;
  std::size_t ring = 0;
  for (std::int64_t pass = 0; pass < options_.passes;) {
    bool end_of_dataset = false;
    const bool traced = options_.number >= 0 && traces();
    const std::int64_t start_ns = traced ? now_ns() : 0;
    TF_RETURN_IF_ERROR(iterator_->get_next(&element.components, &end_of_dataset));
    if (end_of_dataset) {
      if (++pass < options_.passes) TF_RETURN_IF_ERROR(iterator_->restart());
      continue;
    }
    element.pass = pass;
    element.ready_ns = now_ns();
    const std::int64_t ready_ns = element.ready_ns;
    const std::int64_t bytes = traced ? held_bytes(element) : 0;
    if (options_.counted) {
      element.size = size_of(element.components);
      element.components.clear();
    }
    bound_feeds(element);
    const bool pushed = deal(feeds_[ring].get(), &element) == FeedOutcome::kDone;
    if (traced) {
      const std::int64_t end_ns = now_ns();
      record({TraceKind::kFeeder, -1, options_.number, start_ns, end_ns,
              ready_ns - start_ns, end_ns - ready_ns, bytes, 1},
             options_.name);
    }
    if (!pushed) {
      refused_ = true;
      break;
    }
    total_.store(++count, std::memory_order_release);  // [2] in feeder.h
    if (++ring == feeds_.size()) ring = 0;
  }
  return absl::OkStatus();
}

// A reader wakes the feeder when half of its ring is empty. One of several may read no
// further, in a collective or at its end, while others wait for what comes after its
// element: so the feeder itself polls for room. Each time it waits twice
// as long: so no reader waits more than twice as long as need be, and a feeder without
// a reader takes hardly any CPU.
FeedOutcome Feeder::deal(ElementFeed* feed, Element* element) {
  if (feeds_.size() == 1) return feed->push(std::move(*element));
  FeedOutcome outcome = feed->try_push(std::move(*element));
  for (auto ns = kDealNs; outcome == FeedOutcome::kTimedOut;
       ns = std::min(2 * ns, kLongestDealNs)) {
    outcome = feed->push(std::move(*element), now_ns() + ns);
  }
  return outcome;
}

// Few elements that are huge must not fill the memory: the bound is in bytes, too.
void Feeder::bound_feeds(const Element& element) {
  const std::int64_t bytes = held_bytes(element);
  if (bytes <= largest_bytes_) return;
  largest_bytes_ = bytes;
  const std::size_t most =
      bytes <= kSmallBytes ? feeds_[0]->capacity() : options_.capacity;
  const auto fitting =
      static_cast<std::size_t>(options_.bytes / std::max<std::int64_t>(1, bytes) /
                               static_cast<std::int64_t>(feeds_.size()));
  for (const auto& feed : feeds_) {
    feed->set_limit(std::min(most, std::max<std::size_t>(1, fitting)));
  }
}

void forget_feeders_of_parent() { Registry::replace(); }

int live_feeders() { return static_cast<int>(Registry::get().running().size()); }

void stop_all_feeders(std::int64_t timeout_ns) {
  const auto running = Registry::get().running();
  for (const auto& feeder : running) feeder->stop();
  const auto wait = [](Feeder& feeder, std::int64_t deadline) {
    feeder.wait_finished(std::max<std::int64_t>(0, deadline - now_ns()));
  };
  std::int64_t deadline = now_ns() + timeout_ns;
  for (const auto& feeder : running) wait(*feeder, deadline);
  // From now on no dataset may be taken down; those that are being so are waited for.
  interpreter_ends.store(true);
  deadline = now_ns() + kTakesDownNs;
  for (const auto& feeder : running) {
    if (feeder->takes_down()) wait(*feeder, deadline);
  }
}

}  // namespace ipufeed
