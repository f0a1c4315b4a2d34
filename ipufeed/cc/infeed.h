// An infeed queue's native half: the feeder of its dataset, and who reads from it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "feeder.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace ipufeed {

class Program;

// What each element of a feed is.
struct Signature {
  std::vector<tensorflow::DataType> dtypes;
  std::vector<tensorflow::TensorShape> shapes;
};

// Counts and times of one feed, for statistics. Times are nanoseconds.
struct FeedStats {
  std::int64_t elements = 0;  // that crossed it
  std::int64_t capacity = 0;  // of its ring
  std::int64_t filled = 0;    // elements in the ring, now
  std::int64_t stored_bytes = 0;
  WaitStats device;  // the program's waits
  WaitStats host;    // the other side's
};

// Lives from the initializer to the deleter. Its ring keeps what has been read ahead
// from one program to the next, so that nothing is lost or repeated between runs.
class Infeed {
 public:
  // feeder: null for a feed of constant data (--null_data_feed).
  Infeed(std::int64_t number, std::string name, Signature signature,
         std::shared_ptr<Feeder> feeder);

  std::int64_t number() const { return number_; }
  const std::string& name() const { return name_; }
  const Signature& signature() const { return signature_; }
  const std::shared_ptr<Feeder>& feeder() const { return feeder_; }

  // True once the device that the dataset lived on has gone.
  bool orphaned() const;

  // For Program: one program at a time.
  absl::Status take();
  void give_back() { taken_.store(false, std::memory_order_release); }
  bool taken() const { return taken_.load(std::memory_order_acquire); }
  void wake();

  // The program's thread. Waits for the next element, and tells the program's clock of
  // steps when it was there; errors name the feed and the number of the element.
  absl::Status dequeue(Program& program, std::vector<tensorflow::Tensor>* components);

  FeedStats stats() const;

 private:
  absl::Status check(const std::vector<tensorflow::Tensor>& components) const;

  const std::int64_t number_;
  const std::string name_;
  const Signature signature_;
  const std::shared_ptr<Feeder> feeder_;
  std::vector<std::vector<tensorflow::Tensor>> constants_;
  std::atomic<bool> taken_{false};
  std::atomic<std::int64_t> dequeued_{0};
};

}  // namespace ipufeed
