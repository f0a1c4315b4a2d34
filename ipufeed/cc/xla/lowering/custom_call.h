// Custom calls: the form of our ops in a compiled program. For files with XLA's
// headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"

namespace ipufeed {

// in_place: this many of the first results are in the memory of the first operands. XLA
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
