// The C entry points of errors and of failures on request.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/faults.h"
#include "capi/api.h"

namespace ipufeed {
namespace {

thread_local absl::Status last_error;

// At most size - 1 bytes of a text, and a 0.
void copy_text(std::string_view text, char* to, std::int64_t size) {
  if (to == nullptr || size <= 0) return;
  const auto length = std::min(text.size(), static_cast<std::size_t>(size) - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

}  // namespace

void set_last_error(absl::Status error) { last_error = std::move(error); }

}  // namespace ipufeed

// The code of the error that the last failed call on this thread has left; its text
// goes to `message`. Not guarded: it is what reports the others, and nothing in it
// throws.
IPUFEED_API int ipufeed_last_error(char* message, std::int64_t size) {
  ipufeed::copy_text(ipufeed::last_error.message(), message, size);
  return static_cast<int>(ipufeed::last_error.code());
}

// For tests: see faults.h. Not guarded, so that no fault can hit them.
IPUFEED_API int ipufeed_set_fault(const char* where, std::int64_t nth, int fault) {
  const bool known = fault >= static_cast<int>(ipufeed::Fault::kNone) &&
                     fault <= static_cast<int>(ipufeed::Fault::kUnknown);
  if (where == nullptr || !known) {
    ipufeed::set_last_error(absl::InvalidArgumentError(
        "`where` of ipufeed_set_fault must not be null, and `fault` a known one."));
    return std::numeric_limits<int>::min();
  }
  ipufeed::set_fault(where, nth, static_cast<ipufeed::Fault>(fault));
  return 0;
}
IPUFEED_API int ipufeed_fault_counts(char* lines, std::int64_t size) {
  ipufeed::copy_text(ipufeed::fault_counts(), lines, size);
  return 0;
}
