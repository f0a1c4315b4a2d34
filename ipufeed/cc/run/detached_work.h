// Work that cannot be stopped, on a thread of its own, for whose end no stop of its
// program waits.
//
//   program's thread   run_detached() -> waits -> the end, or the program's stop
//   the work's thread  work()                       ... goes on to its end
//
// XLA's compiler is such work: it has no way to end early, and may take minutes. What
// Ctrl-C, Session.close or a time-out stops leaves it behind. A process that ends while
// there is some ends without the destructors of static objects, which the work uses.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "run/program.h"

namespace ipufeed {

// Runs `work` on a new thread, and returns when it has ended, or with the reason for
// the program's stop. Then the work still runs: what it refers to it must own, its
// results too. The error of an exception that it throws. Without a program, or where no
// thread can be started, on the calling one. what: for errors, such as "XLA's
// compilation"; a literal.
absl::Status run_detached(Program* program, const char* what,
                          const std::function<void()>& work);

// How many of them run now, also of programs that have ended. Any thread.
int detached_work();

}  // namespace ipufeed
