// Custom calls: what our ops become in a compiled program. For files with XLA's
// headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/guard.h"
#include "run/program.h"
#include "xla/ffi/api/ffi.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"

// xla/ffi/ffi_api.h declares this, but includes headers that the wheel does not have.
namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();
}

namespace ipufeed {

namespace ffi = xla::ffi;

inline ffi::Error to_ffi(const absl::Status& status) {
  return ffi::Error(static_cast<ffi::ErrorCode>(status.code()),
                    std::string(status.message()));
}

// The answer of a call: what `work` returns, or the error of its exception.
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

// in_place: so many of the first results are in the memory of the first operands. XLA
// copies an operand that is used elsewhere, too.
inline xla::XlaOp call(xla::XlaBuilder* builder, const char* target,
                       const std::vector<xla::XlaOp>& operands,
                       const std::vector<xla::Shape>& operand_shapes,
                       const std::vector<xla::Shape>& results,
                       const std::string& attributes, std::int64_t in_place = 0) {
  std::vector<std::pair<xla::ShapeIndex, std::pair<std::int64_t, xla::ShapeIndex>>>
      same(static_cast<std::size_t>(in_place));
  for (std::int64_t i = 0; i < in_place; ++i) {
    auto& [result, operand] = same[static_cast<std::size_t>(i)];
    result.push_back(i);
    operand.first = i;
  }
  return xla::CustomCallWithLayout(
      builder, target, operands, xla::ShapeUtil::MakeTupleShape(results),
      operand_shapes, attributes, /*has_side_effect=*/true, same, /*literal=*/nullptr,
      xla::CustomCallSchedule::SCHEDULE_NONE,
      xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
}

inline xla::Shape token_shape() {
  return xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::U32, {});
}

}  // namespace ipufeed
