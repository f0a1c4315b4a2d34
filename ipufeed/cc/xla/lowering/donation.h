// The new values of variables in the memory of the old ones, where a program with calls
// may do so.
//
// A program that takes or gives elements can end half-way (its dataset ends, it is
// stopped), and its variables must then be as they were. So it may write to the memory
// of a variable only when nothing is left that can fail. This pass finds the new values
// that can be computed then, and orders them after the program's last call:
//
//   call -> call -> last call --token--+
//   readers of the old value --order---+--> new value, in the memory of the old one
//
// It is for a program as XLA's passes leave it, before XLA chooses the order of its
// instructions and their memory.
#pragma once

#include <vector>

namespace xla {
class HloModule;
}

namespace ipufeed {

// A result of a program that is the new value of one of its parameters, a variable.
struct VariableUpdate {
  int result;
  int parameter;
};

// Declares the memory of those parameters to be that of their new values, for each of
// `updates` where that is safe; the others keep memory of their own. Safe is a new
// value that each call can precede, and each other reader of the old value, and whose
// element i depends on no other element of the old value than i (or which changes some
// elements and keeps the rest).
void donate_variables(xla::HloModule* module,
                      const std::vector<VariableUpdate>& updates);

}  // namespace ipufeed
