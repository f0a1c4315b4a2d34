// The feeder: a host thread that iterates a dataset and hands its elements to a feed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "dataset_iterator.h"
#include "feed.h"

namespace ipufeed {

// One element of the dataset: all its components, by reference, so that they cannot
// drift apart on the way.
struct Element {
  std::vector<tensorflow::Tensor> components;
  std::int64_t pass = 0;      // how often the dataset has been started again before it
  std::int64_t ready_ns = 0;  // when the dataset delivered it, on the monotonic clock
};

using ElementFeed = Feed<Element, absl::Status>;

struct FeederOptions {
  std::size_t capacity = 32;       // elements in the feed, as in the original system
  std::int64_t bytes = 256 << 20;  // and no more bytes than this, but for one element
  std::int64_t passes = 1;         // how often to go through the dataset
  bool finalize = true;            // see DatasetIterator
  int threads = 0;                 // likewise
};

// Runs from start() until the dataset's end or failure, or until stop().
//
// The feeder may outlive the op that started it, and its device, when Python code inside
// the dataset takes long to finish an element. A resource in the device's resource manager
// holds every running feeder. When the device goes (Session.close destroys it) it stops
// them, waits a moment, and detaches those that run on from the device: see HostDevice.
class Feeder {
 public:
  static absl::Status start(tensorflow::OpKernelContext* ctx,
                            tensorflow::data::DatasetBase* dataset,
                            const FeederOptions& options, std::shared_ptr<Feeder>* out);
  ~Feeder();
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;

  ElementFeed& feed() { return feed_; }

  // Any thread. Cancels the feed and the dataset, and returns at once.
  void stop();

  // The thread of the op that started it, which then drops its reference. Stops the
  // feeder; false if it had to be left to the device's keeper after timeout_ns.
  bool finish(tensorflow::OpKernelContext* ctx, std::int64_t timeout_ns);

  // Any thread. True once the feeder's thread has let go of the dataset, false when
  // timeout_ns went by first.
  bool wait_finished(std::int64_t timeout_ns);

  // Any thread. What still runs of the dataset uses the device no more.
  void detach() { HostDevice::detach(link_); }

  // CPU time of the feeder's thread so far; its dataset's other threads are not in it.
  std::int64_t cpu_ns() const { return cpu_ns_.load(std::memory_order_relaxed); }

 private:
  Feeder(std::unique_ptr<DatasetIterator> iterator, const FeederOptions& options);
  void run();
  absl::Status feed_all();

  const FeederOptions options_;
  ElementFeed feed_;
  const HostLink link_;
  std::unique_ptr<DatasetIterator> iterator_;  // the thread's, but for cancel()
  std::mutex iterator_mutex_;                  // guards iterator_ against stop()
  std::atomic<std::int64_t> cpu_ns_{0};
  // Guards finished_ and thread_. Any number of threads may wait for the end, and it is
  // rare: not a case for WaitPoint.
  std::mutex finish_mutex_;
  std::condition_variable finish_;
  bool finished_ = false;
  std::thread thread_;
};

// Feeders of this process whose thread still runs.
int live_feeders();

// Stops all of them and waits at most timeout_ns for each. For the interpreter's exit.
void stop_all_feeders(std::int64_t timeout_ns);

}  // namespace ipufeed
