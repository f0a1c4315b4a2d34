// Results of an outfeed as tensors, for eager Python: what the dequeue ops give in
// graphs. Each tensor is a DLManagedTensor (DLPack), which TensorFlow takes over
// without a copy.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "capi/api.h"
#include "external/dlpack/include/dlpack/dlpack.h"
#include "feeds/feed_table.h"
#include "feeds/outfeed.h"
#include "tensorflow/core/framework/tensor.h"

namespace {

using ipufeed::Outfeed;
using ipufeed::ResultSignature;
using tensorflow::DataType;
using tensorflow::Tensor;

// The arguments and results of a take; outfeed_reader.py has the same.
enum How : int { kNext = 0, kAll = 1, kLast = 2 };
enum Answer : int { kNothing = 0, kEnded = 1, kNoOutfeed = 2, kTaken = 3, kOthers = 4 };

DLDataType to_dlpack(DataType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * tensorflow::DataTypeSize(dtype));
  switch (dtype) {
    case tensorflow::DT_BOOL:
      return {kDLBool, bits, 1};
    case tensorflow::DT_HALF:
    case tensorflow::DT_FLOAT:
    case tensorflow::DT_DOUBLE:
      return {kDLFloat, bits, 1};
    case tensorflow::DT_BFLOAT16:
      return {kDLBfloat, bits, 1};
    case tensorflow::DT_COMPLEX64:
    case tensorflow::DT_COMPLEX128:
      return {kDLComplex, bits, 1};
    case tensorflow::DT_INT8:
    case tensorflow::DT_INT16:
    case tensorflow::DT_INT32:
    case tensorflow::DT_INT64:
      return {kDLInt, bits, 1};
    case tensorflow::DT_UINT8:
    case tensorflow::DT_UINT16:
    case tensorflow::DT_UINT32:
    case tensorflow::DT_UINT64:
      return {kDLUInt, bits, 1};
    default:
      throw std::invalid_argument("a result of a dtype that DLPack has no word for");
  }
}

// A tensor, and the description of it that its new owner reads.
struct Shared {
  DLManagedTensor described{};
  Tensor tensor;
  std::vector<std::int64_t> sizes;
};

void free_shared(DLManagedTensor* described) {
  delete static_cast<Shared*>(described->manager_ctx);
}

// All memory for the descriptions of tensors, allocated before they are taken.
using Descriptions = std::vector<std::unique_ptr<Shared>>;

Descriptions prepare(const ResultSignature& signature) {
  Descriptions made;
  for (std::size_t i = 0; i < signature.dtypes.size(); ++i) {
    Shared& shared = *made.emplace_back(std::make_unique<Shared>());
    // With the dimensions of the results and of the replicas.
    shared.sizes.reserve(static_cast<std::size_t>(signature.shapes[i].dims()) + 2);
    DLTensor& described = shared.described.dl_tensor;
    described.device = {kDLCPU, 0};
    described.dtype = to_dlpack(signature.dtypes[i]);
    shared.described.manager_ctx = &shared;
    shared.described.deleter = free_shared;
  }
  return made;
}

// Gives the tensors away, to free_shared().
void describe(Descriptions descriptions, std::vector<Tensor>&& tensors,
              void** addresses) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Shared& shared = *descriptions[i].release();
    shared.tensor = std::move(tensors[i]);
    for (int d = 0; d < shared.tensor.dims(); ++d) {
      shared.sizes.push_back(shared.tensor.dim_size(d));
    }
    DLTensor& described = shared.described.dl_tensor;
    described.data = shared.tensor.data();
    described.ndim = shared.tensor.dims();
    described.shape = shared.sizes.data();
    addresses[i] = &shared.described;
  }
}

absl::Status accept_any(const ResultSignature& /*signature*/) {
  return absl::OkStatus();
}

// Before the first result of an outfeed.
int wait_for_first(Outfeed* feed, int how, std::int64_t deadline_ns,
                   std::uint64_t seen_ends) {
  if (how != kNext || !feed->wait(deadline_ns, seen_ends)) return kNothing;
  return feed->signature() != nullptr ? kOthers : kEnded;
}

int take_next(Outfeed* feed, std::int64_t deadline_ns, std::uint64_t seen_ends,
              std::vector<Tensor>* tensors) {
  ipufeed::ResultElement element;
  switch (feed->next(&element, deadline_ns, seen_ends)) {
    case ipufeed::FeedOutcome::kDone:
      *tensors = std::move(element.components);
      return kTaken;
    case ipufeed::FeedOutcome::kTimedOut:
      return kNothing;
    case ipufeed::FeedOutcome::kCancelled:
      return kNoOutfeed;
    default:
      return kEnded;
  }
}

absl::Status take_all(Outfeed* feed, std::vector<Tensor>* tensors) {
  absl::Status status = feed->take_all(accept_any, tensors);
  if (!status.ok() || !tensors->empty()) return status;
  const ResultSignature& signature = *feed->signature();
  for (std::size_t i = 0; i < signature.dtypes.size(); ++i) {
    tensorflow::TensorShape shape = signature.stored_shape(i);
    shape.InsertDim(0, 0);
    tensors->emplace_back(signature.dtypes[i], shape);
  }
  return absl::OkStatus();
}

// kNothing at the deadline; an error if there is no result.
absl::Status take_last(Outfeed* feed, std::int64_t deadline_ns,
                       std::vector<Tensor>* tensors, int* answer) {
  const std::atomic<bool> never{false};
  absl::Status status = feed->last(0, deadline_ns, never, accept_any, tensors);
  *answer = status.ok() ? kTaken : kNothing;
  return absl::IsDeadlineExceeded(status) ? absl::OkStatus() : status;
}

int failed(absl::Status status) {
  ipufeed::set_last_error(std::move(status));
  return std::numeric_limits<int>::min();
}

}  // namespace

// Takes results of an outfeed, of whatever size, and writes the address of a
// DLManagedTensor for each component to `tensors`, which has room for `size`.
//
// how: 0 for the next result, which is waited for for timeout_ns at most; 1 for all
// that are there, [n, *shape] each; 2 for the last one of an outfeed that keeps no
// other, once its program has ended, which is waited for likewise. signature_id: what
// the caller takes the results for, see ipufeed_outfeed_signature; 0 before the first.
// Of another signature nothing is taken. seen_ends: see ipufeed_outfeed_ends; another
// number ends the wait for a next result.
//
// 3: taken. 0: nothing is there. 1: nothing, and a run has ended. 2: no such outfeed.
// 4: the results have another signature than signature_id.
IPUFEED_API int ipufeed_outfeed_take(std::int64_t number, std::int64_t how,
                                     std::int64_t signature_id, std::int64_t seen_ends,
                                     std::int64_t timeout_ns, void** tensors,
                                     std::int64_t size) {
  return ipufeed::entry(
      __func__,
      {{"how", how >= kNext && how <= kLast, "must be in [0, 2]"},
       ipufeed::given("tensors", tensors, size)},
      [&]() -> int {
        std::shared_ptr<Outfeed> feed;
        absl::Status status = ipufeed::find_outfeed(number, &feed);
        if (!status.ok() && !absl::IsNotFound(status)) return failed(std::move(status));
        if (how == kAll) ipufeed::warn_unless_executed(number, feed.get());
        if (feed == nullptr) {
          if (how != kLast) return kNoOutfeed;
          // Like one that nothing has been enqueued to: its error is the same.
          feed = std::make_shared<Outfeed>(number, ipufeed::outfeed_name(number),
                                           ipufeed::OutfeedMode::kLast, 1, 0);
        }
        const std::int64_t deadline_ns = ipufeed::deadline_in(timeout_ns);
        const auto ends = static_cast<std::uint64_t>(seen_ends);
        const ResultSignature* const signature = feed->signature();
        const bool is_known = signature != nullptr;
        if (signature_id != (is_known ? feed->signature_id() : 0)) return kOthers;
        int answer = kNothing;
        std::vector<Tensor> taken;
        if (!is_known && how != kLast) {
          return wait_for_first(feed.get(), static_cast<int>(how), deadline_ns, ends);
        }
        Descriptions descriptions;
        if (is_known) {
          if (signature->dtypes.size() > static_cast<std::size_t>(size)) {
            throw std::length_error("a result has more tensors than there is room for");
          }
          descriptions = prepare(*signature);
        }
        if (how == kNext) {
          answer = take_next(feed.get(), deadline_ns, ends, &taken);
        } else if (how == kAll) {
          status = take_all(feed.get(), &taken);
          answer = kTaken;
        } else {
          status = take_last(feed.get(), deadline_ns, &taken, &answer);
        }
        if (!status.ok()) return failed(std::move(status));
        if (answer == kTaken) {
          describe(std::move(descriptions), std::move(taken), tensors);
        }
        return answer;
      });
}

// How many replicas an outfeed's results are made of, as far as it is known; 1 if it
// does not exist.
IPUFEED_API int ipufeed_outfeed_replicas(std::int64_t number) {
  return ipufeed::entry(__func__, [&]() -> int {
    std::shared_ptr<Outfeed> feed;
    if (!ipufeed::find_outfeed(number, &feed).ok()) return 1;
    return feed->replicas_of_results();
  });
}

// Frees a tensor that ipufeed_outfeed_take has given and that has no other owner.
IPUFEED_API int ipufeed_free_tensor(void* tensor) {
  return ipufeed::entry(__func__, {ipufeed::given("tensor", tensor)},
                        [&] { free_shared(static_cast<DLManagedTensor*>(tensor)); });
}
