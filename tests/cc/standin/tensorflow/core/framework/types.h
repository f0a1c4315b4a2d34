// What there is to know of a dtype.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "tensorflow/core/framework/types.pb.h"

// Declared only: Eigen/Core takes a second of each compilation; one source needs it.
namespace Eigen {
struct bfloat16;
}  // namespace Eigen

namespace tensorflow {

using bfloat16 = Eigen::bfloat16;
using tstring = std::string;

// Bytes of an element; 0 of a dtype whose elements are not of one size.
inline int DataTypeSize(DataType dtype) {
  switch (dtype) {
    case DT_UINT8:
    case DT_INT8:
    case DT_BOOL:
      return 1;
    case DT_INT16:
    case DT_UINT16:
    case DT_HALF:
    case DT_BFLOAT16:
      return 2;
    case DT_FLOAT:
    case DT_INT32:
    case DT_UINT32:
      return 4;
    case DT_DOUBLE:
    case DT_INT64:
    case DT_UINT64:
    case DT_COMPLEX64:
      return 8;
    default:
      return 0;
  }
}

inline bool DataTypeCanUseMemcpy(DataType dtype) { return DataTypeSize(dtype) > 0; }

inline std::string DataTypeString(DataType dtype) {
  return "dtype " + std::to_string(static_cast<int>(dtype));
}

}  // namespace tensorflow
