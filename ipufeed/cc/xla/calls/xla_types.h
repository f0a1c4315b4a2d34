// XLA's dtypes as TensorFlow's.
#pragma once

#include "tensorflow/core/framework/types.pb.h"
#include "xla/ffi/api/ffi.h"

namespace ipufeed {

inline tensorflow::DataType to_tensorflow(xla::ffi::DataType type) {
  switch (type) {
    case xla::ffi::F32:
      return tensorflow::DT_FLOAT;
    case xla::ffi::F16:
      return tensorflow::DT_HALF;
    case xla::ffi::BF16:
      return tensorflow::DT_BFLOAT16;
    case xla::ffi::F64:
      return tensorflow::DT_DOUBLE;
    case xla::ffi::PRED:
      return tensorflow::DT_BOOL;
    case xla::ffi::S8:
      return tensorflow::DT_INT8;
    case xla::ffi::U8:
      return tensorflow::DT_UINT8;
    case xla::ffi::S16:
      return tensorflow::DT_INT16;
    case xla::ffi::U16:
      return tensorflow::DT_UINT16;
    case xla::ffi::S32:
      return tensorflow::DT_INT32;
    case xla::ffi::U32:
      return tensorflow::DT_UINT32;
    case xla::ffi::S64:
      return tensorflow::DT_INT64;
    case xla::ffi::U64:
      return tensorflow::DT_UINT64;
    case xla::ffi::C64:
      return tensorflow::DT_COMPLEX64;
    case xla::ffi::C128:
      return tensorflow::DT_COMPLEX128;
    default:
      return tensorflow::DT_INVALID;
  }
}

}  // namespace ipufeed
