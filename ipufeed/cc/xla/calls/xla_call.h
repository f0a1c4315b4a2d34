// The common part of a compiled program's calls at run time. Of XLA's headers
// the interface for calls is enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/guard.h"
#include "run/program.h"
#include "xla/ffi/api/ffi.h"

// xla/ffi/ffi_api.h declares this, but includes headers that the wheel does not have.
namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();  // NOLINT: XLA's name
}

namespace ipufeed {

namespace ffi = xla::ffi;

inline ffi::Error to_ffi(const absl::Status& status) {
  return ffi::Error(static_cast<ffi::ErrorCode>(status.code()),
                    std::string(status.message()));
}

// The result of a call: that of `work`, or the error of its exception.
template <class Work>
ffi::Error answer(const char* name, Work&& work) {
  return to_ffi(guarded(name, std::forward<Work>(work)));
}

// The program of this thread. Without one (XLA ran the call on a thread that is not the
// device's) the call works all the same, and ends only with its feed.
class CallProgram {
 public:
  CallProgram() : program_(current_program()) {
    if (program_ != nullptr) return;
    own_ = std::make_unique<Program>(nullptr, 0);
    program_ = own_.get();
  }
  Program* operator->() const { return program_; }
  Program& operator*() const { return *program_; }

 private:
  std::unique_ptr<Program> own_;
  Program* program_;
};

// The token's value means nothing; its place in the chain does.
inline void write_token(ffi::RemainingRets& results, std::size_t index) {
  auto token = results.get<ffi::AnyBuffer>(index);
  if (token.has_value()) {
    std::memset((*token)->untyped_data(), 0, (*token)->size_bytes());
  }
}

}  // namespace ipufeed
