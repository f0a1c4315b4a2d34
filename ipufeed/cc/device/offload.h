// Offloaded tensors: in the host's memory, moved by a program to its IPU and back. Here
// both are the host's; a move is a copy, and an event of the trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/trace.h"
#include "core/wait.h"
#include "run/program.h"

namespace ipufeed {

// number: of the remote buffer. stores: from the IPU, otherwise to it. Their events are
// those of transfers, with numbers below 0, which no queue has.
inline void move_remote(void* to, const void* from, std::size_t bytes,
                        std::int64_t number, bool stores) {
  const bool traced = traces();
  const std::int64_t start_ns = traced ? now_ns() : 0;
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  if (!traced) return;
  const std::int64_t end_ns = now_ns();
  const Program* program = current_program();
  record({stores ? TraceKind::kDeviceToHost : TraceKind::kHostToDevice,
          program == nullptr ? 0 : program->ordinal(), -1 - number, start_ns, end_ns,
          end_ns - start_ns, 0, static_cast<std::int64_t>(bytes), 1},
         absl::StrCat("remote buffer ", number));
}

}  // namespace ipufeed
