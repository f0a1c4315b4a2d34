#include "xla/lowering/donation.h"

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "absl/strings/match.h"
#include "xla/hlo/analysis/alias_info.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/ir/hlo_opcode.h"
#include "xla/shape_util.h"

namespace ipufeed {
namespace {

using xla::HloInstruction;
using xla::HloOpcode;
using Set = std::unordered_set<const HloInstruction*>;

// Whether an instruction is one of our calls, or a loop, branch or function with one.
bool may_fail(const HloInstruction& each) {
  if (each.opcode() == HloOpcode::kCustomCall) {
    return absl::StartsWith(each.custom_call_target(), "ipufeed_");
  }
  return std::any_of(
      each.called_computations().begin(), each.called_computations().end(),
      [](const xla::HloComputation* called) {
        return std::any_of(
            called->instructions().begin(), called->instructions().end(),
            [](const HloInstruction* inner) { return may_fail(*inner); });
      });
}

// All instructions that are before (or after) those of `found`, and these.
template <class Next>
void close_over(Set* found, const Next& next) {
  std::vector<const HloInstruction*> open(found->begin(), found->end());
  while (!open.empty()) {
    const HloInstruction* each = open.back();
    open.pop_back();
    for (const HloInstruction* other : next(*each)) {
      if (found->insert(other).second) open.push_back(other);
    }
  }
}

std::vector<const HloInstruction*> predecessors(const HloInstruction& of) {
  std::vector<const HloInstruction*> all(of.operands().begin(), of.operands().end());
  all.insert(all.end(), of.control_predecessors().begin(),
             of.control_predecessors().end());
  return all;
}

std::vector<const HloInstruction*> successors(const HloInstruction& of) {
  std::vector<const HloInstruction*> all(of.users().begin(), of.users().end());
  all.insert(all.end(), of.control_successors().begin(), of.control_successors().end());
  return all;
}

bool is_number(const xla::Shape& shape) {
  return shape.IsArray() && shape.dimensions().empty();
}

constexpr std::int64_t kAll = -1;

// Whether an instruction writes a number among its results (or its result, kAll). A
// loop, branch or function may give one that it has taken, in the same memory.
bool writes(const HloInstruction& instruction, std::int64_t index) {
  const auto root_writes = [index](const xla::HloComputation* called) {
    return writes(*called->root_instruction(), index);
  };
  switch (instruction.opcode()) {
    case HloOpcode::kConditional:
      // One step for XLA's runtime, with the memory of all branches.
      return std::any_of(instruction.branch_computations().begin(),
                         instruction.branch_computations().end(), root_writes);
    case HloOpcode::kCall:
      return root_writes(instruction.to_apply());
    case HloOpcode::kCopy:
      return writes(*instruction.operand(0), kAll);
    case HloOpcode::kCustomCall:
      return xla::Cast<xla::HloCustomCallInstruction>(&instruction)
          ->output_to_operand_aliasing()
          .empty();
    case HloOpcode::kFusion:
      return index == kAll;
    case HloOpcode::kGetTupleElement:
      return index == kAll &&
             writes(*instruction.operand(0), instruction.tuple_index());
    case HloOpcode::kTuple:
      return index != kAll && writes(*instruction.operand(index), kAll);
    case HloOpcode::kWhile:
      return root_writes(instruction.while_body());
    default:
      return instruction.IsElementwise() && instruction.operand_count() > 0;
  }
}

// A number among the results of an instruction that it writes and nothing else reads,
// or null. A fusion that takes it runs after that instruction: XLA's runtime orders
// what it runs by the memory that it reads and writes, not by control dependencies.
HloInstruction* number_result(HloInstruction* instruction) {
  if (is_number(instruction->shape())) {
    return writes(*instruction, kAll) ? instruction : nullptr;
  }
  if (!instruction->shape().IsTuple()) return nullptr;
  const auto& parts = instruction->shape().tuple_shapes();
  for (std::size_t i = parts.size(); i-- > 0;) {
    const auto index = static_cast<std::int64_t>(i);
    if (!is_number(parts[i]) || !writes(*instruction, index)) continue;
    HloInstruction* element = nullptr;
    bool is_read = false;
    for (HloInstruction* user : instruction->users()) {
      if (user->opcode() != HloOpcode::kGetTupleElement) return nullptr;
      if (user->tuple_index() != index) continue;
      element = user;
      is_read = is_read || !user->users().empty();
    }
    if (is_read) continue;
    if (element != nullptr) return element;
    return instruction->parent()->AddInstruction(
        HloInstruction::CreateGetTupleElement(instruction, index));
  }
  return nullptr;
}

// Whether each element of a fusion's result depends on the same element of a parameter
// of its computation only.
bool is_elementwise_on(const HloInstruction* value, const xla::Shape& shape,
                       Set* seen) {
  if (!seen->insert(value).second) return true;
  return std::all_of(value->users().begin(), value->users().end(),
                     [&](const HloInstruction* user) {
                       const auto indices = user->OperandIndices(value);
                       return xla::ShapeUtil::SameDimensions(user->shape(), shape) &&
                              std::all_of(indices.begin(), indices.end(),
                                          [user](std::int64_t index) {
                                            return user->IsElementwiseOnOperand(index);
                                          }) &&
                              is_elementwise_on(user, shape, seen);
                     });
}

// Whether the memory of an operand may be that of a result.
bool hands_on(const HloInstruction& user) {
  switch (user.opcode()) {
    case HloOpcode::kCustomCall:
      return !xla::Cast<xla::HloCustomCallInstruction>(&user)
                  ->output_to_operand_aliasing()
                  .empty();
    case HloOpcode::kAddDependency:
    case HloOpcode::kAsyncDone:
    case HloOpcode::kAsyncStart:
    case HloOpcode::kAsyncUpdate:
    case HloOpcode::kCall:
    case HloOpcode::kConditional:
    case HloOpcode::kDomain:
    case HloOpcode::kGetTupleElement:
    case HloOpcode::kOptimizationBarrier:
    case HloOpcode::kWhile:
      return true;
    default:
      return !user.shape().IsArray() ||
             !xla::AliasInfo().GetInPlaceInputOutputPairs(&user).empty();
  }
}

class Donation {
 public:
  explicit Donation(xla::HloModule* module)
      : module_(module), root_(module->entry_computation()->root_instruction()) {}

  void donate(const std::vector<VariableUpdate>& updates) {
    if (!find_last_calls()) return;
    for (const VariableUpdate& each : updates) donate(each);
  }

 private:
  // The calls that no other call follows, and what is before a call.
  bool find_last_calls() {
    std::vector<HloInstruction*> calls;
    for (HloInstruction* each : module_->entry_computation()->instructions()) {
      if (may_fail(*each)) calls.push_back(each);
    }
    Set before;
    for (const HloInstruction* call : calls) {
      for (const HloInstruction* each : predecessors(*call)) before.insert(each);
    }
    close_over(&before, predecessors);
    for (HloInstruction* call : calls) {
      if (before.count(call) == 0) {
        HloInstruction* number = number_result(call);
        if (number == nullptr) return false;
        last_numbers_.push_back(number);
      }
    }
    before_calls_ = std::move(before);
    before_calls_.insert(calls.begin(), calls.end());
    return !calls.empty();
  }

  HloInstruction* result(int index) const {
    return root_->opcode() == HloOpcode::kTuple ? root_->mutable_operand(index) : root_;
  }

  void donate(const VariableUpdate& update) {
    HloInstruction* updated = result(update.result);
    HloInstruction* old =
        module_->entry_computation()->parameter_instruction(update.parameter);
    if (updated->opcode() != HloOpcode::kFusion || !updated->IsLoopFusion() ||
        !xla::Shape::Equal()(updated->shape(), old->shape()) ||
        before_calls_.count(updated) != 0 ||
        (root_ != updated && root_->OperandIndices(updated).size() != 1)) {
      return;
    }
    HloInstruction* copy = nullptr;
    if (!find_copy(updated, old, &copy)) return;
    std::vector<HloInstruction*> readers;
    if (!find_readers(old, updated, copy, &readers)) return;
    if (copy == nullptr && !reads_in_place(updated, old)) return;
    Set behind = {updated};
    close_over(&behind, successors);
    for (const HloInstruction* each : readers) {
      if (behind.count(each) != 0) return;
    }
    const xla::ShapeIndex index = root_->opcode() == HloOpcode::kTuple
                                      ? xla::ShapeIndex({update.result})
                                      : xla::ShapeIndex();
    if (!module_->input_output_alias_config()
             .SetUpAlias(index, update.parameter, {})
             .ok()) {
      return;
    }
    order(updated, old, copy, readers);
  }

  // A fusion that changes some elements of an operand has its result in the memory of
  // that operand: here of a copy of the old value, which is then needless. Not if it is
  // of another value, which may be there before the last call.
  static bool find_copy(HloInstruction* updated, const HloInstruction* old,
                        HloInstruction** copy) {
    const auto pairs = xla::AliasInfo().GetInPlaceInputOutputPairs(updated);
    if (pairs.empty()) return true;
    HloInstruction* operand =
        updated->mutable_operand(pairs.front().first.operand_number);
    *copy = operand;
    return pairs.size() == 1 && operand->opcode() == HloOpcode::kCopy &&
           operand->operand(0) == old && operand->user_count() == 1 &&
           operand->control_successors().empty() &&
           updated->OperandIndices(operand).size() == 1;
  }

  // The instructions that read the old value, except the new one. False if one of them
  // hands its memory on.
  bool find_readers(const HloInstruction* old, const HloInstruction* updated,
                    const HloInstruction* copy,
                    std::vector<HloInstruction*>* readers) const {
    for (HloInstruction* user : old->users()) {
      if (user == copy) continue;
      if (user == updated) {
        if (copy != nullptr) return false;
        continue;
      }
      if (user->opcode() == HloOpcode::kBitcast) {
        if (std::count(user->users().begin(), user->users().end(), updated) != 0 ||
            user == root_ || !find_readers(user, updated, copy, readers)) {
          return false;
        }
      } else if (hands_on(*user)) {
        return false;
      } else {
        readers->push_back(user);
      }
    }
    return true;
  }

  static bool reads_in_place(const HloInstruction* updated, const HloInstruction* old) {
    for (const std::int64_t index : updated->OperandIndices(old)) {
      Set seen;
      if (!is_elementwise_on(updated->fused_parameter(index), updated->shape(),
                             &seen)) {
        return false;
      }
    }
    return true;
  }

  // The new value after all calls and readers. It always reads the old one: the memory
  // of a value that has no more reader is XLA's to use for others.
  void order(HloInstruction* updated, HloInstruction* old, HloInstruction* copy,
             const std::vector<HloInstruction*>& readers) const {
    if (copy != nullptr) {
      (void)updated->ReplaceOperandWith(updated->operand_index(copy), old);
      (void)copy->parent()->RemoveInstruction(copy);
    } else if (updated->OperandIndices(old).empty()) {
      updated->AddFusionOperand(old);
    }
    for (HloInstruction* each : last_numbers_) {
      if (updated->OperandIndices(each).empty()) updated->AddFusionOperand(each);
    }
    for (HloInstruction* each : readers) (void)each->AddControlDependencyTo(updated);
  }

  xla::HloModule* const module_;
  HloInstruction* const root_;
  std::vector<HloInstruction*> last_numbers_;
  Set before_calls_;  // and the calls
};

}  // namespace

void donate_variables(xla::HloModule* module,
                      const std::vector<VariableUpdate>& updates) {
  Donation(module).donate(updates);
}

}  // namespace ipufeed
