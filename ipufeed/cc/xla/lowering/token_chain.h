// The order of a compiled program's calls, as data flow.
//
// XLA:CPU runs calls that do not depend on each other's results at the same time. Each
// of our calls with an effect (dequeue, enqueue, collective, ...) therefore takes a
// token and gives one, and each assertion, which holds back the calls after it.
// TensorFlow passes the token of one op to the next within a function at most, and none
// to the bodies of loops, branches and called functions. This pass connects them after
// TensorFlow has lowered the program and before its key is computed:
//
//   call -> while(state, token) -> conditional(token) -> call
//             body: call -> call
//
// The order is that in which TensorFlow has lowered the ops, which observes the control
// dependencies of the graph: ipufeed/queues/chain.py makes those.
#pragma once

#include "xla/service/hlo.pb.h"

namespace ipufeed {

// Makes each call with a token depend on the one before it, through all computations of
// the module, if it holds others than assertions. Loops, branches and functions that
// hold such calls take the token in addition to what they take, and give it; a loop's
// condition takes it only. The entry computation's signature stays as it is. Not to be
// repeated.
void chain_tokens(xla::HloModuleProto* module);

}  // namespace ipufeed
