// Draws a seed for the thread's program, replica and mini-batch.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/seeds.h"
#include "pipeline/pipeline.h"
#include "replicas/processes.h"
#include "run/program.h"

namespace ipufeed {

// own: the seed that the op brings (two numbers), or null. out: two numbers.
inline void draw_seed(Program& program, const Context& context, std::int64_t op,
                      const std::int32_t* own, std::int32_t* out) {
  RunSeeds::Place place;
  place.replica = process_index() * context.replicas + context.replica;
  place.op = op;
  if (context.pipeline != nullptr) {
    place.mini_batch = context.pipeline->mini_batch(context.ipu);
  }
  const auto pack = [](const std::int32_t* two) {
    return std::uint64_t{static_cast<std::uint32_t>(two[1])} << 32 |
           static_cast<std::uint32_t>(two[0]);
  };
  const std::uint64_t seed =
      own == nullptr
          ? program.seeds().draw(program.ordinal(), place)
          : program.seeds().draw_or_keep(program.ordinal(), place, pack(own));
  out[0] = static_cast<std::int32_t>(static_cast<std::uint32_t>(seed));
  out[1] = static_cast<std::int32_t>(static_cast<std::uint32_t>(seed >> 32));
}

}  // namespace ipufeed
