// What the tests above the feed share: delays, datasets, and programs of replicas.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "../check.h"
#include "allocation.h"
#include "data/feeder.h"
#include "feeds/feed_table.h"
#include "feeds/infeed.h"
#include "feeds/lease.h"
#include "feeds/outfeed.h"
#include "replicas/replicas.h"
#include "run/program.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace standin {

using ipufeed::Context;
using ipufeed::ContextScope;
using ipufeed::Program;
using ipufeed::Replicas;
using tensorflow::CancellationManager;
using tensorflow::Tensor;
using tensorflow::TensorShape;

constexpr std::int64_t kSecondNs = 1'000'000'000;

// Random numbers of a thread's own: another `what` gives other ones.
inline check::Random random_of(std::uint64_t what) {
  return check::Random(check::Random(check::seed() + what).next());
}

// Mostly nothing, sometimes a moment, seldom long enough for all others to pass.
inline void dawdle(check::Random* random) {
  const auto die = random->below(64);
  if (die == 0) usleep(1 + static_cast<useconds_t>(random->below(200)));
  if (die < 8) check::spin(random->below(1'000));
}

// Waits for `done()`, which another thread makes true.
template <class Done>
void until(Done done) {
  for (int tries = 0; !done();) check::relax(&tries);
}

// As the boundaries of the library turn exceptions into errors.
template <class Call>
absl::Status guarded(Call&& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory");
  }
}

// Runs `attempt(n)` with the n-th allocation of armed threads failing, from 0 until it
// runs through without a failure. attempt() returns whether all has gone well.
template <class Attempt>
void with_each_allocation_failing(Attempt attempt) {
  for (long n = 0;; ++n) {
    CHECK(n < 100'000);
    until_failure = n;
    const bool well = attempt(n);
    const bool all_were_there = until_failure >= 0;
    until_failure = -1;
    if (all_were_there) {
      CHECK(well);
      CHECK(n > 0);
      return;
    }
  }
}

// A tensor of int64, all of which are `value`.
inline Tensor filled(std::int64_t value, std::int64_t count = 3) {
  Tensor tensor(tensorflow::DT_INT64, TensorShape({count}));
  if (!tensor.IsInitialized()) throw std::bad_alloc();
  std::fill_n(tensor.flat<std::int64_t>().data(), count, value);
  return tensor;
}

// What all of a tensor's int64 are.
inline std::int64_t value_of(const Tensor& tensor) {
  const auto values = tensor.flat<std::int64_t>();
  CHECK(values.size() > 0);
  for (std::int64_t i = 0; i < values.size(); ++i) CHECK_EQ(values(i), values(0));
  return values(0);
}

// A dataset of elements 0, 1, 2, ..., each of one tensor.
struct Numbers {
  std::int64_t count = 0;          // then it ends
  std::int64_t fails_at = -1;      // an error in place of this element
  std::int64_t blocks_at = -1;     // waits in place of it until it is cancelled
  std::int64_t odd_shape_at = -1;  // an element of another shape
  std::int64_t throws_at = -1;     // an exception in place of it
  bool armed = false;              // its allocations count
};

class NumbersIterator final : public tensorflow::data::IteratorBase {
 public:
  explicit NumbersIterator(const Numbers& numbers) : numbers_(numbers) {}
  absl::Status GetNext(tensorflow::data::IteratorContext* ctx,
                       std::vector<Tensor>* components, bool* end) override {
    dawdle(&random_);
    const Armed armed(numbers_.armed);
    const std::int64_t number = next_++;
    if (number == numbers_.fails_at) return absl::DataLossError("a bad record");
    if (number == numbers_.throws_at) throw std::bad_alloc();
    if (number == numbers_.blocks_at) {
      until([ctx] { return ctx->cancellation_manager()->IsCancelled(); });
      return absl::CancelledError("cancelled");
    }
    *end = number == numbers_.count;
    if (*end) return absl::OkStatus();
    components->push_back(filled(number, number == numbers_.odd_shape_at ? 4 : 3));
    return absl::OkStatus();
  }

 private:
  const Numbers numbers_;
  std::int64_t next_ = 0;
  check::Random random_ = random_of(1);
};

class NumbersDataset final : public tensorflow::data::DatasetBase {
 public:
  explicit NumbersDataset(const Numbers& numbers) : numbers_(numbers) {}
  absl::Status MakeIterator(
      tensorflow::data::IteratorContext*, const tensorflow::data::IteratorBase*,
      const std::string&,
      std::unique_ptr<tensorflow::data::IteratorBase>* iterator) const override {
    *iterator = std::make_unique<NumbersIterator>(numbers_);
    return absl::OkStatus();
  }

 private:
  const Numbers numbers_;
};

// A number for a queue that no other test has.
inline std::int64_t new_number() {
  static std::atomic<std::int64_t> last{0};
  return ++last;
}

// A host device with an infeed that reads a dataset on it.
class Source {
 public:
  Source(const Numbers& numbers, std::size_t rings, std::size_t capacity,
         std::int64_t number = new_number())
      : number_(number), device_(std::make_unique<tensorflow::ResourceMgr>()) {
    const tensorflow::core::RefCountPtr<NumbersDataset> dataset(
        new NumbersDataset(numbers));
    tensorflow::OpKernelContext ctx({}, device_.get());
    ipufeed::FeederOptions options;
    options.rings = rings;
    options.capacity = capacity;
    options.small_capacity = 0;
    options.held = true;  // as the op has it
    std::shared_ptr<ipufeed::Feeder> feeder;
    absl::Status status = ipufeed::Feeder::start(&ctx, dataset.get(), options, &feeder);
    CHECK_EQ(status.ToString(), "OK");
    ipufeed::Signature signature{{tensorflow::DT_INT64}, {TensorShape({3})}};
    status = ipufeed::add_infeed(std::make_shared<ipufeed::Infeed>(
        number_, "numbers", signature, feeder, rings));
    CHECK_EQ(status.ToString(), "OK");
  }
  ~Source() {
    const absl::Status status = remove();
    if (!absl::IsNotFound(status)) CHECK_EQ(status.ToString(), "OK");
  }

  std::int64_t number() const { return number_; }

  // As the op that deletes the queue.
  absl::Status remove() {
    std::shared_ptr<ipufeed::Infeed> feed;
    TF_RETURN_IF_ERROR(ipufeed::remove_infeed(number_, &feed));
    if (device_ == nullptr) return absl::OkStatus();
    tensorflow::OpKernelContext ctx({}, device_.get());
    CHECK(feed->feeder()->finish(&ctx, 60 * kSecondNs));
    return absl::OkStatus();
  }

  // As Session.close.
  void close_device() { device_.reset(); }

 private:
  const std::int64_t number_;
  std::unique_ptr<tensorflow::ResourceMgr> device_;
};

// Runs body(replica, others) on a thread for each replica, as the library runs copies
// of a program: one that ends well leaves, and the first that fails stops the others.
// `others` is null for one. The threads are armed on request. Gives their errors.
template <class Body>
std::vector<absl::Status> run_replicas(Program* program, int replicas, Body body,
                                       bool armed = false) {
  std::unique_ptr<Replicas> others;
  if (replicas > 1) {
    others = std::make_unique<Replicas>(replicas);
    program->add(others.get());
  }
  std::vector<absl::Status> statuses(static_cast<std::size_t>(replicas));
  std::mutex mutex;
  bool failed = false;  // guarded by mutex
  std::vector<std::thread> threads;
  for (int r = 0; r < replicas; ++r) {
    threads.emplace_back([&, r] {
      Context context;
      context.program = program;
      context.ipu = context.replica = r;
      context.replicas = replicas;
      context.others = others.get();
      const ContextScope scope(context);
      absl::Status status = guarded([&] {
        const Armed arm(armed);
        TF_RETURN_IF_ERROR(body(r, others.get()));
        if (others == nullptr) return absl::OkStatus();
        others->leave_for_good(r);
        return program->leave(r);
      });
      statuses[static_cast<std::size_t>(r)] = status;
      if (status.ok()) return;
      bool is_first = false;
      {
        std::lock_guard<std::mutex> lock(mutex);
        is_first = !failed;
        failed = true;
      }
      if (is_first) program->stop(status);
    });
  }
  for (auto& thread : threads) thread.join();
  if (others != nullptr) program->remove(others.get());
  return statuses;
}

// The first error by replica, or OK.
inline absl::Status first_error(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace standin
