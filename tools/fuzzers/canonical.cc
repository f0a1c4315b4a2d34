// Fuzzes the canonical form of programs (ipufeed/cc/xla/compile/canonical.cc).
//
//   input: a serialised HloModuleProto, or anything else
//
// What is given back must be an HloModuleProto when the input was one, the same on each
// call, and its own canonical form.
#include "ipufeed/cc/xla/compile/canonical.cc"

#include <cstdio>
#include <cstdlib>

namespace {

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "canonical: %s\n", what);
  std::abort();
}

absl::StatusOr<std::string> canonical_of(const std::string& bytes) {
  // A copy of exactly its size, so that AddressSanitizer sees a byte too many.
  const std::vector<char> exact(bytes.begin(), bytes.end());
  return ipufeed::canonical_bytes({exact.data(), exact.size()});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<std::string> first = canonical_of(input);
  if (!first.ok()) {
    check(!first.status().message().empty(), "an error has a message");
    return 0;
  }
  xla::HloModuleProto module;
  if (!module.ParseFromString(input)) return 0;
  check(module.ParseFromString(*first), "the result is an HloModuleProto");
  const absl::StatusOr<std::string> second = canonical_of(*first);
  check(second.ok(), "the result is accepted");
  check(*second == *first, "the result is its own canonical form");
  return 0;
}
