#include "feeds/lease.h"

#include <memory>
#include <utility>

#include "feeds/feed_table.h"

namespace ipufeed {
namespace {

// Programs are below the feeds, and call this.
const bool kHearsOfFailures = set_on_failure(note_failure_at_outfeeds);

}  // namespace

absl::Status lease_infeed(Program& program, std::int64_t number, Infeed** out) {
  Leased* leased = program.leased(Leased::Kind::kInfeed, number);
  if (leased == nullptr) {
    std::shared_ptr<Infeed> feed;
    TF_RETURN_IF_ERROR(find_infeed(number, &feed));
    if (feed->serves()) program.serve();
    TF_RETURN_IF_ERROR(program.lease(std::move(feed), &leased));
  }
  *out = static_cast<Infeed*>(leased);
  return absl::OkStatus();
}

absl::Status lease_outfeed(Program& program, std::int64_t number, OutfeedMode mode,
                           std::size_t capacity, Outfeed** out) {
  Leased* leased = program.leased(Leased::Kind::kOutfeed, number);
  if (leased == nullptr) {
    std::shared_ptr<Outfeed> feed;
    if (!find_outfeed(number, &feed).ok()) {
      TF_RETURN_IF_ERROR(find_or_add_outfeed(
          std::make_shared<Outfeed>(number, outfeed_name(number), mode, capacity,
                                    program.ordinal()),
          &feed));
    }
    TF_RETURN_IF_ERROR(program.lease(std::move(feed), &leased));
  }
  *out = static_cast<Outfeed*>(leased);
  return absl::OkStatus();
}

}  // namespace ipufeed
