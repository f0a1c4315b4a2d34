#include "pipeline/pipeline.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/wait.h"
#include "run/stall.h"

namespace ipufeed {
namespace {

std::size_t total(const std::vector<Memory>& tensors) {
  std::size_t bytes = 0;
  for (const Memory& each : tensors) bytes += each.bytes;
  return bytes;
}

bool are_alike(const std::vector<Memory>& one, const std::vector<Memory>& other) {
  return std::equal(
      one.begin(), one.end(), other.begin(), other.end(),
      [](const Memory& a, const Memory& b) { return a.bytes == b.bytes; });
}

std::string named(const Place& place) {
  return absl::StrCat("stage ", place.stage, " on IPU ", place.ipu);
}

}  // namespace

Packet::~Packet() { SpareMemory::get().give(std::move(bytes_)); }

std::byte* Packet::reserve(std::size_t bytes) {
  if (size_ < bytes) {
    // First, so that the two never exist at once; and it may be all that is sent
    // well.
    size_ = 0;  // also if the next line throws
    SpareMemory::get().give(std::move(bytes_));
    bytes_ = SpareMemory::get().take(bytes);
    size_ = bytes;
  }
  return bytes_.get();
}

PipelineRun::PipelineRun(Program& program, const std::vector<RingOptions>& rings,
                         int first_ipu, int ipus, std::int64_t mini_batches)
    : program_(program),
      first_ipu_(first_ipu),
      mini_batches_(mini_batches),
      at_(static_cast<std::size_t>(ipus)) {
  for (const RingOptions& each : rings) {
    rings_.push_back(std::make_unique<Ring>(each));
    for (std::int64_t i = 0; i < each.credits; ++i) {
      rings_.back()->feed.try_push(Packet());
    }
  }
}

// The offer of a receive: after it the writer has no access to the tensors.
class PipelineRun::Offer {
 public:
  explicit Offer(Ring* ring) : ring_(*ring) {}
  ~Offer() { is_taken(); }
  Offer(const Offer&) = delete;
  Offer& operator=(const Offer&) = delete;

  void make(const std::vector<Memory>* tensors) {
    ring_.direct.offer(ring_.received, tensors);
    made_ = true;
  }

  // Takes it back. If the writer has claimed it, receives its mark: true.
  bool is_taken() {
    if (!std::exchange(made_, false) || ring_.direct.retract(ring_.received)) {
      return false;
    }
    ring_.feed.pop(&ring_.in);
    return true;
  }

  // The mini-batch has come.
  void end() { made_ = false; }

 private:
  Ring& ring_;
  bool made_ = false;
};

// Copies the tensors to where the reader waits for them; false if it does not.
bool PipelineRun::send_direct(Ring* ring, const std::vector<Memory>& tensors) {
  const std::vector<Memory>* const to = ring->direct.claim(ring->sent);
  if (to == nullptr) return false;
  // From here on nothing fails, and no stop is observed: the reader of a claimed offer
  // waits for what is pushed here, without a condition to stop.
  ring->out.is_direct = are_alike(tensors, *to);
  if (!ring->out.is_direct) {
    ring->out = Packet();  // an empty one, which the reader refuses
  }
  for (std::size_t i = 0; ring->out.is_direct && i < tensors.size(); ++i) {
    if (tensors[i].bytes > 0) {
      std::memcpy((*to)[i].data, tensors[i].data, tensors[i].bytes);
    }
  }
  ring->out.sent_ns = now_ns();
  ring->feed.try_push(std::move(ring->out));  // there is room: direct_copy.h
  ++ring->sent;
  return true;
}

absl::Status PipelineRun::send(std::size_t number, const std::vector<Memory>& tensors) {
  if (number >= rings_.size()) return absl::InternalError("a send without its ring.");
  Ring& ring = *rings_[number];
  const std::size_t bytes = total(tensors);
  if (bytes >= kDirectBytes && !over() && send_direct(&ring, tensors)) {
    return absl::OkStatus();
  }
  std::byte* to = ring.out.reserve(bytes);
  for (const Memory& each : tensors) {
    if (each.bytes > 0) std::memcpy(to, each.data, each.bytes);
    to += each.bytes;
  }
  ring.out.is_direct = false;
  ring.out.sent_ns = now_ns();
  const auto left = [&ring] {
    return ring.reader_has_left.load(std::memory_order_relaxed);
  };
  const auto stopped = [this, left] { return over() || left(); };
  // What fits is sent, also when its reader has left.
  FeedOutcome outcome =
      over() ? FeedOutcome::kStopped : ring.feed.try_push(std::move(ring.out));
  const bool is_full = outcome == FeedOutcome::kTimedOut;
  StallWatch stall;
  while (outcome == FeedOutcome::kTimedOut) {
    outcome = ring.feed.push(std::move(ring.out), stall.next_report_ns(), stopped);
    if (outcome == FeedOutcome::kTimedOut) {
      stall.report(program_, "pipeline", ring.name(), "full",
                   absl::StrCat(named(ring.target), " takes nothing"));
    }
  }
  if (outcome == FeedOutcome::kDone) {
    ++ring.sent;
    if (is_full) at_[index_of(ring.source.ipu)].clock->held_until(now_ns());
    return absl::OkStatus();
  }
  if (outcome == FeedOutcome::kStopped && !over()) {
    return absl::InternalError(absl::StrCat(
        "IPU ", ring.target.ipu, " of the pipeline has ended, and IPU ",
        ring.source.ipu, " waits until it takes what goes from ", ring.name(), "."));
  }
  return why("sending to", ring, ring.source.ipu);
}

absl::Status PipelineRun::receive(std::size_t number,
                                  const std::vector<Memory>& tensors) {
  if (number >= rings_.size())
    return absl::InternalError("a receive without its ring.");
  Ring& ring = *rings_[number];
  const auto stopped = [this] { return over(); };
  FeedOutcome outcome = stopped() ? FeedOutcome::kStopped : ring.feed.try_pop(&ring.in);
  const std::size_t bytes = total(tensors);
  Offer offer(&ring);
  if (outcome == FeedOutcome::kTimedOut && bytes >= kDirectBytes) offer.make(&tensors);
  StallWatch stall;
  while (outcome == FeedOutcome::kTimedOut) {
    outcome = ring.feed.pop(&ring.in, stall.next_report_ns(), stopped);
    if (outcome == FeedOutcome::kTimedOut) {
      stall.report(program_, "pipeline", ring.name(), "empty",
                   absl::StrCat(named(ring.source), ring.in.sent_ns == 0
                                                        ? " has sent nothing"
                                                        : " has sent nothing more"));
    }
  }
  if (outcome == FeedOutcome::kDone || offer.is_taken()) {
    outcome = FeedOutcome::kDone;
    offer.end();
  }
  if (outcome == FeedOutcome::kEnded) {
    return absl::InternalError(
        absl::StrCat("IPU ", ring.source.ipu, " of the pipeline has ended, and IPU ",
                     ring.target.ipu, " waits for another mini-batch that goes from ",
                     ring.name(), "."));
  }
  if (outcome != FeedOutcome::kDone)
    return why("receiving from", ring, ring.target.ipu);
  ++ring.received;
  at_[index_of(ring.target.ipu)].clock->take(ring.in.sent_ns);
  if (ring.in.is_direct) return absl::OkStatus();
  if (ring.in.size() < bytes) {
    return absl::InternalError("a packet of a pipeline is too small.");
  }
  const std::byte* from = ring.in.data();
  for (const Memory& each : tensors) {
    if (each.bytes > 0) std::memcpy(each.data, from, each.bytes);
    from += each.bytes;
  }
  return absl::OkStatus();
}

void PipelineRun::leave(int ipu) {
  for (const auto& ring : rings_) {
    if (ring->source.ipu == ipu) ring->feed.end();
    if (ring->target.ipu == ipu) {
      ring->reader_has_left.store(true, std::memory_order_relaxed);
      ring->feed.wake_writer();
    }
  }
}

void PipelineRun::fail() {
  failed_.store(true, std::memory_order_relaxed);
  // The wake-ups order the flag before what the waiter reads next: wait.h, [7] and [8].
  wake();
}

void PipelineRun::wake() {
  for (const auto& ring : rings_) {
    ring->feed.wake_reader();
    ring->feed.wake_writer();
  }
}

absl::Status PipelineRun::why(const char* doing, const Ring& ring, int ipu) {
  at_[index_of(ipu)].waited = true;
  if (program_.stopped()) return stopped_while(doing, ring.name(), program_);
  return absl::CancelledError("another IPU of the pipeline has failed");
}

}  // namespace ipufeed
