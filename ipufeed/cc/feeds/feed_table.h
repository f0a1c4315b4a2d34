// The feeds of this process, by number.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

namespace ipufeed {

class Infeed;
class Outfeed;

// All functions: any thread. Infeeds and outfeeds are numbered apart.
//
// The number is what programs carry, as a value and not as a part of their code, so
// that a program that was compiled for one queue runs with another. The name is what
// users see.

void set_infeed_name(std::int64_t number, const std::string& name);
void set_outfeed_name(std::int64_t number, const std::string& name);
std::string infeed_name(std::int64_t number);
std::string outfeed_name(std::int64_t number);

// Removes the name of a deleted queue.
void forget_infeed_name(std::int64_t number);
void forget_outfeed_name(std::int64_t number);

// Logs, once for each outfeed, that results are requested before any program with it
// has begun. feed: the outfeed; null if there is none.
void warn_unless_executed(std::int64_t number, const Outfeed* feed);

// How many feeds and names there are.
struct TableSizes {
  std::int64_t infeeds;
  std::int64_t infeed_names;
  std::int64_t outfeeds;
  std::int64_t outfeed_names;
};
TableSizes table_sizes();

// FailedPrecondition if its initializer has not run.
absl::Status find_infeed(std::int64_t number, std::shared_ptr<Infeed>* out);

// AlreadyExists if there is one whose device still lives.
absl::Status check_no_infeed(std::int64_t number);
absl::Status add_infeed(const std::shared_ptr<Infeed>& feed);

// NotFound if there is none, FailedPrecondition if a program uses it.
absl::Status remove_infeed(std::int64_t number, std::shared_ptr<Infeed>* removed);

// NotFound if no program has enqueued to it yet.
absl::Status find_outfeed(std::int64_t number, std::shared_ptr<Outfeed>* out);

// The one that is there already, or `feed`, which is then there.
absl::Status find_or_add_outfeed(std::shared_ptr<Outfeed> feed,
                                 std::shared_ptr<Outfeed>* out);

// FailedPrecondition if a program uses it. Unknown ones are not an error.
absl::Status remove_outfeed(std::int64_t number);

// Counts a failure for each outfeed of the IPU `ordinal` that no program uses: see
// Outfeed::ends.
void note_failure_at_outfeeds(int ordinal);

}  // namespace ipufeed
