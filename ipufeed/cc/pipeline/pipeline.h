// A running pipeline: the rings between its IPUs, and its end.
//
//   IPU 0: [ stage 0 ] --ring--> IPU 1: [ stage 1 ] --ring--> IPU 2 ...
//           each ring: one IPU writes, one reads, mini-batches in order
//
// The order in which an IPU sends and receives is its schedule's, which is the same for
// all: with the room in the rings that the schedule asks for no IPU waits for another
// one that waits for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/cpus.h"
#include "core/feed.h"
#include "core/spare_memory.h"
#include "core/step_clock.h"
#include "pipeline/direct_copy.h"
#include "pipeline/ipu_program.h"
#include "run/program.h"

namespace ipufeed {

// The tensors of one mini-batch that cross from one IPU to another, in one piece of
// memory; or the mark that they are already in the reader's memory
// (pipeline/direct_copy.h). Moving is a swap, so that the memory returns to the writer
// with its slot.
class Packet {
 public:
  Packet() = default;
  ~Packet();
  Packet(Packet&& other) noexcept { *this = std::move(other); }
  Packet& operator=(Packet&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    std::swap(sent_ns, other.sent_ns);
    std::swap(is_direct, other.is_direct);
    return *this;
  }

  // Room for `bytes` bytes; what was in it is lost if it had less. Large ones are of
  // packets that other pipelines have had.
  std::byte* reserve(std::size_t bytes);
  const std::byte* data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }

  std::int64_t sent_ns = 0;  // 0 of one that was there from the start
  bool is_direct = false;    // the tensors have been copied, and it is only the mark

 private:
  SpareMemory::Bytes bytes_;
  std::size_t size_ = 0;
};

// How long an IPU spins for its neighbour, with its CPU on offer to others, before it
// sleeps. A stage of a few operations takes some 10 us; to be woken takes as long, and
// up to 50 us where the CPUs are virtual. An IPU that would have to wait for longer
// than it costs to sleep loses no more by this than that cost once again (Karlin et
// al., "Empirical studies of competitive spinning", SOSP 1991); and after a few waits
// in vain it stops spinning: wait.h.
inline constexpr std::int64_t kRingSpinNs = 20'000;

// From this size on, a mini-batch whose reader waits is copied once, to where the
// reader wants it, and not twice, through a packet. A smaller copy takes less time than
// the cache misses of the offer.
inline constexpr std::size_t kDirectBytes = 16 << 10;

// Where a stage is.
struct Place {
  std::string stage;
  int ipu = 0;  // of the device
};

class PipelineRun final : public Wakeable, public Stages {
 public:
  struct RingOptions {
    std::int64_t capacity = 1;  // mini-batches
    std::int64_t credits = 0;   // empty packets that are in it from the start
    Place source;
    Place target;
  };

  // ipus: how many of the device, from first_ipu on.
  // mini_batches: that the program's run has had before.
  PipelineRun(Program& program, const std::vector<RingOptions>& rings, int first_ipu,
              int ipus, std::int64_t mini_batches = 0);

  // Copies the tensors out, or in. Waits for room, or for the packet; an error once the
  // program is stopped or the pipeline has failed, and if the IPU at the other end has
  // ended. One IPU sends to a ring and one receives from it, each one call at a time.
  // The IPU's step clock gets what it has waited for.
  absl::Status send(std::size_t ring, const std::vector<Memory>& tensors);
  absl::Status receive(std::size_t ring, const std::vector<Memory>& tensors);

  // An IPU's program begins, on its thread. The clock is the IPU's, for as long as
  // this. Kept here, since Program::step_clock() takes a lock that all IPUs share.
  void begin(int ipu, StepClock& clock) { at_[index_of(ipu)].clock = &clock; }

  // Sets the state of an IPU, on its thread: the stage that it runs, or "" for none
  // yet; for errors and reports. mini_batch: which one of this execution.
  void enter(int ipu, std::string_view stage, std::int64_t mini_batch) {
    At& at = at_[index_of(ipu)];
    at.stage = stage;
    at.mini_batch = mini_batch;
    at.most = std::max(at.most, mini_batch + 1);
  }
  const std::string& at(int ipu) const override { return at_[index_of(ipu)].stage; }

  // Which mini-batch of the run the IPU is at; on its thread.
  std::int64_t mini_batch(int ipu) const {
    return mini_batches_ + at_[index_of(ipu)].mini_batch;
  }

  // How many mini-batches this execution has had, when all IPUs have ended.
  std::int64_t mini_batches() const {
    std::int64_t most = 0;
    for (const At& at : at_) most = std::max(most, at.most);
    return most;
  }

  // Whether what has ended an IPU's program ended a wait for another IPU, which
  // therefore has the cause. The IPU's thread.
  bool waited(int ipu) const { return at_[index_of(ipu)].waited; }

  // The IPU's program has ended, without an error; its thread. It sends and receives
  // no more.
  void leave(int ipu);

  // Every wait returns with an error. Any thread.
  void fail();

  // The program has been stopped.
  void wake() override;

 private:
  struct Ring {
    explicit Ring(const RingOptions& options)
        : feed(static_cast<std::size_t>(options.capacity), 0,
               usable_cpus() > 1 ? kRingSpinNs : 0),
          source(options.source),
          target(options.target),
          sent(static_cast<std::uint64_t>(options.credits)) {}

    std::string name() const { return source.stage + " to " + target.stage; }

    Feed<Packet, absl::Status> feed;
    const Place source;
    const Place target;
    // Relaxed: it orders nothing. The wake-up orders it before what the writer reads
    // next: wait.h, [7] and [8].
    std::atomic<bool> reader_has_left{false};
    DirectCopy<std::vector<Memory>> direct;
    Packet out;              // the writer's, as is the number of its next mini-batch
    std::uint64_t sent = 0;  // the credits, which are there from the start, included
    Packet in;               // the reader's, likewise
    std::uint64_t received = 0;
  };

  bool over() const {
    return program_.stopped() || failed_.load(std::memory_order_relaxed);
  }
  class Offer;
  static bool send_direct(Ring* ring, const std::vector<Memory>& tensors);
  absl::Status why(const char* doing, const Ring& ring, int ipu);
  std::size_t index_of(int ipu) const {
    return static_cast<std::size_t>(ipu - first_ipu_);
  }

  Program& program_;
  std::atomic<bool> failed_{false};
  std::vector<std::unique_ptr<Ring>> rings_;
  const int first_ipu_;
  const std::int64_t mini_batches_;
  struct alignas(kCacheLine) At {  // each IPU's own, which it writes to at each stage
    StepClock* clock = nullptr;
    std::string stage;
    bool waited = false;
    std::int64_t mini_batch = 0;
    std::int64_t most = 0;
  };
  std::vector<At> at_;  // by IPU
};

}  // namespace ipufeed
