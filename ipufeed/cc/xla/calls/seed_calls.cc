// The calls of random operations, as a compiled program makes them. seed_lowering.cc
// adds them to a program.

#include <cstdint>

#include "random/random_numbers.h"
#include "random/seed_draw.h"
#include "run/program.h"
#include "xla/calls/names.h"
#include "xla/calls/xla_call.h"
#include "xla/calls/xla_types.h"
#include "xla/ffi/api/ffi.h"

namespace ipufeed {
namespace {

ffi::Error seed_call(ffi::BufferR1<ffi::S32> own,
                     ffi::Result<ffi::BufferR1<ffi::S32>> seed, std::int64_t o,
                     std::int64_t keeps_own) {
  return answer(kSeed, [&] {
    CallProgram program;
    draw_seed(*program, current_context(), o,
              keeps_own != 0 ? own.typed_data() : nullptr, seed->typed_data());
  });
}

ffi::Error random_call(ffi::BufferR1<ffi::S32> seed, ffi::Result<ffi::AnyBuffer> result,
                       std::int64_t distribution) {
  return answer(kRandom, [&] {
    return fill_random(static_cast<Distribution>(distribution), seed.typed_data(),
                       to_tensorflow(result->element_type()),
                       static_cast<std::int64_t>(result->element_count()),
                       result->untyped_data());
  });
}

XLA_FFI_DEFINE_HANDLER(kSeedHandler, seed_call,
                       ffi::Ffi::Bind()
                           .Arg<ffi::BufferR1<ffi::S32>>()
                           .Ret<ffi::BufferR1<ffi::S32>>()
                           .Attr<std::int64_t>("o")
                           .Attr<std::int64_t>("keeps_own"));
XLA_FFI_DEFINE_HANDLER(kRandomHandler, random_call,
                       ffi::Ffi::Bind()
                           .Arg<ffi::BufferR1<ffi::S32>>()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<std::int64_t>("distribution"));
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kSeed, "Host", kSeedHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kRandom, "Host", kRandomHandler);

}  // namespace
}  // namespace ipufeed
