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

struct Answer {
  int calls = 0;
  int ok = 0;
  std::string bytes;
};

thread_local Answer answer;

Answer canonical_of(const std::string& bytes) {
  answer = Answer();
  // A copy of exactly its size, so that AddressSanitizer sees a byte too many.
  const std::vector<char> exact(bytes.begin(), bytes.end());
  ipufeed_canonical(exact.data(), static_cast<std::int64_t>(exact.size()),
                    [](int ok, const char* data, std::int64_t size) {
                      ++answer.calls;
                      answer.ok = ok;
                      answer.bytes.assign(data, static_cast<std::size_t>(size));
                    });
  check(answer.calls == 1, "`take` is called once");
  return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const Answer first = canonical_of(input);
  if (first.ok == 0) {
    check(!first.bytes.empty(), "an error has a message");
    return 0;
  }
  xla::HloModuleProto module;
  if (!module.ParseFromString(input)) return 0;
  check(module.ParseFromString(first.bytes), "the result is an HloModuleProto");
  const Answer second = canonical_of(first.bytes);
  check(second.ok == 1, "the result is accepted");
  check(second.bytes == first.bytes, "the result is its own canonical form");
  return 0;
}
