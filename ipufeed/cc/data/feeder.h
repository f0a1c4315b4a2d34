// The feeder: a host thread that iterates a dataset and hands its elements to a feed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/feed.h"
#include "core/mutex.h"
#include "data/dataset_iterator.h"
#include "data/payload.h"

namespace ipufeed {

// One element of the dataset: all its components, by reference, so that they cannot
// drift apart on the way.
//
// A move swaps the components, so that what the reader leaves in its element returns
// to the writer with the slot: the vector's memory is used again, and tensors that the
// reader has not dropped are freed by the thread that allocates the next ones.
struct Element {
  Element() = default;
  Element(Element&& other) noexcept { *this = std::move(other); }
  Element& operator=(Element&& other) noexcept {
    components.swap(other.components);
    pass = other.pass;
    ready_ns = other.ready_ns;
    size = other.size;
    return *this;
  }

  std::vector<tensorflow::Tensor> components;
  std::int64_t pass = 0;      // number of restarts of the dataset before it
  std::int64_t ready_ns = 0;  // when the dataset delivered it, on the monotonic clock
  ElementSize size;           // with FeederOptions::counted only
};

// Elements of at most this many bytes are small: the hand-over takes longer than moving
// their bytes. They get a longer feed, and the reader need not drop them itself.
inline constexpr std::int64_t kSmallBytes = 1024;

using ElementFeed = Feed<Element, absl::Status>;

struct FeederOptions {
  // Rings to which the elements are distributed in rotation: one for each IPU of
  // the device that reads them, so that no two replicas share one. More elements than
  // `bytes` allow are not read ahead in all rings together.
  std::size_t rings = 1;
  std::size_t capacity = 32;  // elements in a ring, as in the original system
  // The same while all elements are small: what the dataset delivers while the reader
  // naps. 0 for `capacity`.
  std::size_t small_capacity = 1024;
  std::int64_t bytes = 256 << 20;  // and no more bytes than this, but for one element
  std::int64_t passes = 1;         // number of passes over the dataset
  bool finalize = true;            // see DatasetIterator
  bool modelled = false;           // likewise
  int threads = 0;                 // likewise
  bool held = false;               // reads nothing before begin()
  // The reader gets the size of each element in place of its tensors. These are freed
  // before the dataset makes the next ones, which then find their memory in a cache.
  bool counted = false;
  std::int64_t number = -1;  // of the infeed, for traces; -1 for none
  std::string name;          // likewise
};

// Runs from start() until the dataset's end or failure, or until stop(). The iterator
// is made by start(); a feeder that is held reads its first element after begin().
//
// The feeder may outlive the op that started it, and its device, when Python code
// inside the dataset takes long to finish an element. A resource in the device's
// resource manager holds every running feeder. When the device is destroyed, by
// Session.close, it stops them, waits a moment, and detaches the dataset's
// functions from the device: see HostDevice.
class Feeder {
 public:
  static absl::Status start(tensorflow::OpKernelContext* ctx,
                            tensorflow::data::DatasetBase* dataset,
                            const FeederOptions& options, std::shared_ptr<Feeder>* out);
  ~Feeder();
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;

  // Any thread. Lets a feeder that is held read; the first call alone has an effect.
  void begin();

  // Element number e of the dataset is in the ring e % rings().
  ElementFeed& feed(std::size_t ring = 0) { return *feeds_[ring]; }
  std::size_t rings() const { return feeds_.size(); }

  // The number of elements distributed in total. For a reader at the end of its ring:
  // [2] feed_all() -> total(), so that the elements that the count has are in their
  // rings.
  std::int64_t total() const { return total_.load(std::memory_order_acquire); }

  // Whether the dataset has ended without an error. Relaxed: for a caller
  // that knows of the end of a ring, which follows it, through a lock.
  bool ended() const { return ended_.load(std::memory_order_relaxed); }

  // Any thread. Cancels the feed and the dataset, and returns at once.
  void stop();

  // Any thread, once no other reads from the feed: the feed's last owner. Stops the
  // feeder, and frees what it has read ahead: now what is in the feed, and at the end
  // of the feeder's thread the elements that it has added since.
  void drop();

  // The thread of the op that started it, which then drops its reference. Stops the
  // feeder; false if it had to be left to the device's keeper after timeout_ns.
  bool finish(tensorflow::OpKernelContext* ctx, std::int64_t timeout_ns);

  // Any thread. True once the feeder's thread has let go of the dataset, false when
  // timeout_ns went by first.
  bool wait_finished(std::int64_t timeout_ns);

  // Any thread. Whether the dataset is being taken down, or has been.
  bool takes_down() const { return takes_down_.load(); }

  // CPU time of the feeder's thread so far; its dataset's other threads are not in it.
  std::int64_t cpu_ns() const { return cpu_ns_.load(std::memory_order_relaxed); }

 private:
  Feeder(std::unique_ptr<DatasetIterator> iterator, const FeederOptions& options);
  void run();
  bool wait_for_begin();
  absl::Status feed_all();
  void drop_elements() IPUFEED_REQUIRES(finish_mutex_);
  void bound_feeds(const Element& element);
  FeedOutcome deal(ElementFeed* feed, Element* element);

  const FeederOptions options_;
  std::vector<std::unique_ptr<ElementFeed>> feeds_;
  std::atomic<std::int64_t> total_{0};
  std::atomic<bool> ended_{false};
  // The thread's. stop() has the means to cancel it, and needs no lock for that: what
  // it interrupts may call back.
  std::unique_ptr<DatasetIterator> iterator_;
  const std::shared_ptr<tensorflow::CancellationManager> cancellation_;
  std::int64_t largest_bytes_ = -1;  // the thread's: of an element so far
  // The thread's: a ring was cancelled when it had an element for it. stop() is at it,
  // and the other rings must not look as if the dataset had ended.
  bool refused_ = false;
  std::atomic<std::int64_t> cpu_ns_{0};
  std::atomic<bool> takes_down_{false};
  Mutex begin_mutex_;
  CondVar begin_;
  bool begun_ IPUFEED_GUARDED_BY(begin_mutex_);
  // Guards the three below and, once dropped_, the reader's side of the feeds. Any
  // number of threads may wait for the end, and it is rare: not a case for WaitPoint.
  Mutex finish_mutex_;
  CondVar finish_;
  bool finished_ IPUFEED_GUARDED_BY(finish_mutex_) = false;
  bool dropped_ IPUFEED_GUARDED_BY(finish_mutex_) = false;
  std::thread thread_ IPUFEED_GUARDED_BY(finish_mutex_);
};

// A member of a kernel that starts feeders: ends them when the kernel's session ends.
//
// A session destroys its kernels before it clears the resource managers of its devices.
// Datasets have to go in between: the destructor of a shuffled or cached one deletes
// its counters or its elements from the resource manager, and warns if they are not
// there.
class SessionFeeders {
 public:
  SessionFeeders() = default;
  ~SessionFeeders();
  SessionFeeders(const SessionFeeders&) = delete;
  SessionFeeders& operator=(const SessionFeeders&) = delete;

  // Any thread. ctx: of the op that has started the feeder.
  void add(tensorflow::OpKernelContext* ctx, const std::shared_ptr<Feeder>& feeder);

 private:
  Mutex mutex_;
  std::vector<std::weak_ptr<Feeder>> feeders_ IPUFEED_GUARDED_BY(mutex_);
};

// Feeders of this process whose thread still runs.
int live_feeders();

// For a child of fork(), which has none of its parent's threads: the functions here
// then hold only the feeders that the child starts.
void forget_feeders_of_parent();

// Stops all of them and waits at most timeout_ns for all together, longer for those
// that take their datasets down; after that no dataset is taken down. For the
// interpreter's exit.
void stop_all_feeders(std::int64_t timeout_ns);

}  // namespace ipufeed
