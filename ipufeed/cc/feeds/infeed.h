// An infeed queue's native half: the feeder of its dataset, and its readers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "data/feeder.h"
#include "run/leased.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace ipufeed {

class Program;

// The dtypes and shapes of an element.
struct Signature {
  std::vector<tensorflow::DataType> dtypes;
  std::vector<tensorflow::TensorShape> shapes;

  // "float32 [3], int32 []".
  std::string describe() const;
};

// Lives from the initializer to the deleter. Its ring keeps prefetched elements from
// one program to the next, so that none is lost or repeated between runs.
class Infeed final : public Leased {
 public:
  // feeder: null for a feed of constant data (--null_data_feed). rings: those of the
  // feeder, or as many as it would have.
  Infeed(std::int64_t number, std::string name, Signature signature,
         std::shared_ptr<Feeder> feeder, std::size_t rings);
  // Frees the prefetched elements, which are not read any more.
  ~Infeed();
  Infeed(const Infeed&) = delete;
  Infeed& operator=(const Infeed&) = delete;

  // The elements of a feed of constant data; once, before anything else. Without
  // memory for them an error.
  absl::Status make_constants();

  Kind kind() const override { return Kind::kInfeed; }
  std::int64_t number() const override { return number_; }
  const std::string& name() const override { return name_; }
  const Signature& signature() const { return signature_; }
  const std::shared_ptr<Feeder>& feeder() const { return feeder_; }

  // Its elements are calls, which come at any time: a program that takes it serves them
  // until it is stopped. To be set before a program takes it.
  void set_serves() { serves_.store(true, std::memory_order_relaxed); }
  bool serves() const { return serves_.load(std::memory_order_relaxed); }

  // True once the device of the dataset has been destroyed.
  bool orphaned() const;

  // For Program. The replicas divide the rings, and are always as many: what was dealt
  // out to one is not another's.
  absl::Status take(std::int64_t step, int replicas) override;
  // [2] give_back() -> take(), take_for_good(), taken(): the next owner sees the rings
  // as the last program has left them.
  // For the queue's deleter: false if a program has it.
  bool take_for_good() { return !taken_.exchange(true, std::memory_order_acquire); }
  void give_back() override { taken_.store(false, std::memory_order_release); }  // [2]
  bool taken() const { return taken_.load(std::memory_order_acquire); }          // [2]
  void wake() override;

  // A thread of the program: one for each replica. Waits for the next element of the
  // replica: of R the element k * R + r, when it has had k. Gives the IPU's clock
  // of steps when it was there; errors name the feed and the number of the element. A
  // concurrent second call of the replica is an error.
  absl::Status dequeue(Program& program, int replica,
                       std::vector<tensorflow::Tensor>* components);

  // The replica takes no more elements, until the next program. Others may then wait
  // for an element that is never distributed, because one of this replica's blocks it:
  // they get an error. A thread of the program, after the replica's last dequeue(). It
  // never fails for this replica.
  absl::Status leave(int replica) override;

  FeedStats stats() const override;

 private:
  // The rounds of one replica. On separate cache lines: their threads write them.
  struct alignas(kCacheLine) Reader {
    std::atomic<std::int64_t> rounds{0};
    std::atomic<bool> in_use{false};  // a call of the replica is in dequeue()
    // [1] in infeed.cc.
    std::atomic<bool> has_left{false};
  };

  absl::Status fit(int replicas);
  absl::Status next(const Program& program, std::int64_t number, Element* element);
  int in_the_way(std::int64_t number) const;
  absl::Status never_dealt(std::int64_t number, int left) const;
  absl::Status check(std::int64_t number,
                     const std::vector<tensorflow::Tensor>& components) const;

  const std::int64_t number_;
  const std::string name_;
  const Signature signature_;
  const std::shared_ptr<Feeder> feeder_;
  std::vector<std::vector<tensorflow::Tensor>> constants_;
  std::atomic<bool> taken_{false};
  std::atomic<bool> serves_{false};
  // Set by the program that takes the queue, before its replicas read.
  int replicas_ = 0;  // 0: not taken yet
  std::vector<Reader> readers_;
  std::int64_t first_round_ = 0;  // where all replicas of the program begin
};

}  // namespace ipufeed
