// Canonical bytes of a program: the same wherever it was traced.
//
// Names and metadata are dropped. Instructions are numbered in the order in which the
// results need them, operands from left to right: TensorFlow lowers ops in an order
// that depends on the names of arguments and scopes. Instructions that no result needs
// and that have no effect are removed, as XLA will do.
//
// The serialised module is read field by field and most of it is copied unchanged:
// to make messages of it first takes several times longer, most of all in a process
// that has done nothing of the kind yet.

#include "xla/compile/canonical.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "base/proto_fields.h"
#include "xla/service/hlo.pb.h"

namespace ipufeed {
namespace {

// An instruction's number in its computation. XLA writes that of the computation into
// the upper half, but not everywhere.
std::int64_t local_id(std::int64_t number) { return number & 0xFFFFFFFF; }

using xla::HloComputationProto;
using xla::HloInstructionProto;
using xla::HloModuleProto;
using xla::ProgramShapeProto;

struct Instruction {
  std::string_view bytes;
  std::string_view opcode;
  std::int64_t id = 0;
  std::int64_t parameter = 0;
  bool side_effect = false;
  ProtoNumbers operands;
  ProtoNumbers predecessors;
  ProtoNumbers called;
};

bool read(std::string_view bytes, Instruction* instruction) {
  instruction->bytes = bytes;
  return each_proto_field(bytes, [&](const ProtoField& field) {
    switch (field.number) {
      case HloInstructionProto::kOpcodeFieldNumber:
        instruction->opcode = field.bytes;
        return true;
      case HloInstructionProto::kIdFieldNumber:
        instruction->id = static_cast<std::int64_t>(field.value);
        return true;
      case HloInstructionProto::kParameterNumberFieldNumber:
        instruction->parameter = static_cast<std::int64_t>(field.value);
        return true;
      case HloInstructionProto::kCustomCallHasSideEffectFieldNumber:
        instruction->side_effect = field.value != 0;
        return true;
      case HloInstructionProto::kOperandIdsFieldNumber:
        return append_proto_numbers(field, &instruction->operands);
      case HloInstructionProto::kControlPredecessorIdsFieldNumber:
        return append_proto_numbers(field, &instruction->predecessors);
      case HloInstructionProto::kCalledComputationIdsFieldNumber:
        return append_proto_numbers(field, &instruction->called);
      default:
        return true;
    }
  });
}

// One computation of a module, and what is found out about it.
struct Computation {
  std::string_view bytes;
  std::int64_t id = 0;
  std::int64_t root = 0;
  std::vector<Instruction> instructions;
  absl::flat_hash_map<std::int64_t, int> places;  // of instructions, by local id
  std::vector<int> order;                         // places of those that are kept
  bool entered = false;
  std::int64_t number = -1;  // among those that are kept
};

bool read(std::string_view bytes, Computation* computation) {
  computation->bytes = bytes;
  return each_proto_field(bytes, [&](const ProtoField& field) {
    switch (field.number) {
      case HloComputationProto::kIdFieldNumber:
        computation->id = static_cast<std::int64_t>(field.value);
        return true;
      case HloComputationProto::kRootIdFieldNumber:
        computation->root = static_cast<std::int64_t>(field.value);
        return true;
      case HloComputationProto::kInstructionsFieldNumber: {
        Instruction& instruction = computation->instructions.emplace_back();
        if (!read(field.bytes, &instruction)) return false;
        const int place = static_cast<int>(computation->places.size());
        // Two of one number: none is certain.
        return computation->places.emplace(local_id(instruction.id), place).second;
      }
      default:
        return true;
    }
  });
}

// What an instruction does to more than its result.
bool acts(const Instruction& each) {
  static const auto* const opcodes = new absl::flat_hash_set<std::string_view>{
      "infeed", "outfeed",  "recv", "recv-done", "rng", "rng-get-and-update-state",
      "send",   "send-done"};
  return each.side_effect || opcodes->contains(each.opcode);
}

// What an instruction is, without its name, its numbers and those of what it needs.
void write_content(const Instruction& each, ProtoWriter* writer) {
  writer->copy_without(
      each.bytes,
      {HloInstructionProto::kNameFieldNumber, HloInstructionProto::kMetadataFieldNumber,
       HloInstructionProto::kIdFieldNumber, HloInstructionProto::kOperandIdsFieldNumber,
       HloInstructionProto::kControlPredecessorIdsFieldNumber,
       HloInstructionProto::kCalledComputationIdsFieldNumber});
}

// A ProgramShapeProto without the names of parameters.
void write_program_shape(const ProtoField& field, ProtoWriter* writer) {
  std::string shape;
  ProtoWriter(&shape).copy_without(field.bytes,
                                   {ProgramShapeProto::kParameterNamesFieldNumber});
  writer->bytes(field.number, shape);
}

class Canonical {
 public:
  // False for what is not a whole program.
  bool read(std::string_view module) {
    module_ = module;
    const bool whole = each_proto_field(module, [this](const ProtoField& field) {
      if (field.number == HloModuleProto::kEntryComputationIdFieldNumber) {
        entry_ = static_cast<std::int64_t>(field.value);
      }
      if (field.number != HloModuleProto::kComputationsFieldNumber) return true;
      Computation computation;
      if (!ipufeed::read(field.bytes, &computation)) return false;
      const std::int64_t id = computation.id;
      return computations_.emplace(id, std::move(computation)).second;
    });
    return whole && order(entry_);
  }

  std::string bytes() const {
    std::string out;
    write(&out);
    return out;
  }

 private:
  // Orders a computation, and before it those that it calls.
  bool order(std::int64_t id) {
    const auto found = computations_.find(id);
    if (found == computations_.end()) return false;
    Computation& computation = found->second;
    if (computation.number >= 0) return true;
    if (computation.entered) return false;  // it calls itself
    computation.entered = true;
    const auto root = computation.places.find(local_id(computation.root));
    if (root == computation.places.end()) return false;
    const auto& instructions = computation.instructions;
    const int count = static_cast<int>(instructions.size());
    std::vector<char> seen(instructions.size(), 0);
    std::vector<int> parameters;
    std::vector<int> sinks;
    for (int i = 0; i < count; ++i) {
      if (instructions[i].opcode == "parameter") parameters.push_back(i);
    }
    std::sort(parameters.begin(), parameters.end(), [&](int a, int b) {
      return instructions[a].parameter < instructions[b].parameter;
    });
    for (const int each : parameters) {
      if (!reach(computation, each, &seen)) return false;
    }
    if (!reach(computation, root->second, &seen)) return false;
    for (int i = 0; i < count; ++i) {
      if (!seen[i] && has_effect(instructions[i])) sinks.push_back(i);
    }
    if (sinks.size() > 1 && !sort_by_content(computation, &sinks)) return false;
    for (const int each : sinks) {
      if (!reach(computation, each, &seen)) return false;
    }
    for (const int each : computation.order) {
      for (const auto called : instructions[each].called) {
        if (!order(called)) return false;
      }
    }
    computation.number = static_cast<std::int64_t>(kept_.size());
    kept_.push_back(&computation);
    return true;
  }

  // Whether an instruction, or what it calls, does more than its result.
  bool has_effect(const Instruction& each) {
    return acts(each) ||
           std::any_of(each.called.begin(), each.called.end(), [this](auto id) {
             const auto inner = computations_.find(id);
             return inner != computations_.end() && has_effect(&inner->second);
           });
  }

  bool has_effect(const Computation* computation) {
    const auto known = effects_.find(computation);
    if (known != effects_.end()) return known->second;
    effects_[computation] = false;  // until it is known: nothing calls itself
    const auto& instructions = computation->instructions;
    const bool found =
        std::any_of(instructions.begin(), instructions.end(),
                    [this](const Instruction& each) { return has_effect(each); });
    return effects_[computation] = found;
  }

  // Appends what an instruction needs, and then it, to the order: deep first, operands
  // from left to right.
  static bool reach(Computation& computation, int start, std::vector<char>* seen) {
    struct Step {
      int place;
      std::size_t next;
    };
    if ((*seen)[start]) return true;
    std::vector<Step> stack{{start, 0}};
    (*seen)[start] = 1;
    while (!stack.empty()) {
      Step& step = stack.back();
      const Instruction& each = computation.instructions[step.place];
      const std::size_t operands = each.operands.size();
      if (step.next == operands + each.predecessors.size()) {
        computation.order.push_back(step.place);
        stack.pop_back();
        continue;
      }
      const std::int64_t id = step.next < operands
                                  ? each.operands[step.next]
                                  : each.predecessors[step.next - operands];
      ++step.next;
      const auto needed = computation.places.find(local_id(id));
      if (needed == computation.places.end()) return false;
      if ((*seen)[needed->second]) continue;
      (*seen)[needed->second] = 1;
      stack.push_back({needed->second, 0});
    }
    return true;
  }

  // Sorts instructions that nothing needs by what they and all that they need do. Those
  // that are needed by others of them follow from these.
  static bool sort_by_content(const Computation& computation, std::vector<int>* sinks) {
    const auto& instructions = computation.instructions;
    std::vector<std::size_t> contents(instructions.size(), 0);
    std::string content;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      content.clear();
      {
        ProtoWriter writer(&content);
        write_content(instructions[i], &writer);
      }
      for (const auto id : instructions[i].operands) {
        const auto operand = computation.places.find(local_id(id));
        // Operands precede their users in a module.
        if (operand == computation.places.end() ||
            operand->second >= static_cast<int>(i)) {
          return false;
        }
        content += std::to_string(contents[operand->second]) + ",";
      }
      contents[i] = std::hash<std::string>()(content);
    }
    std::stable_sort(sinks->begin(), sinks->end(),
                     [&](int a, int b) { return contents[a] < contents[b]; });
    return true;
  }

  void write(std::string* out) const {
    ProtoWriter writer(out);
    each_proto_field(module_, [&](const ProtoField& field) {
      switch (field.number) {
        case HloModuleProto::kNameFieldNumber:
        case HloModuleProto::kIdFieldNumber:
        case HloModuleProto::kEntryComputationNameFieldNumber:
        case HloModuleProto::kEntryComputationIdFieldNumber:
        case HloModuleProto::kStackFrameIndexFieldNumber:
        case HloModuleProto::kComputationsFieldNumber:
          break;
        case HloModuleProto::kHostProgramShapeFieldNumber:
          write_program_shape(field, &writer);
          break;
        default:
          writer.copy(field.whole);
      }
      return true;
    });
    writer.number(HloModuleProto::kEntryComputationIdFieldNumber,
                  computations_.at(entry_).number);
    std::string computation;
    for (const Computation* each : kept_) {
      computation.clear();
      write(*each, &computation);
      writer.bytes(HloModuleProto::kComputationsFieldNumber, computation);
    }
  }

  void write(const Computation& computation, std::string* out) const {
    std::vector<std::int64_t> numbers(computation.instructions.size(), 0);
    for (std::size_t i = 0; i < computation.order.size(); ++i) {
      numbers[computation.order[i]] = static_cast<std::int64_t>(i);
    }
    const auto number_of = [&](std::int64_t id) {
      return numbers[computation.places.at(local_id(id))];
    };
    ProtoWriter writer(out);
    each_proto_field(computation.bytes, [&](const ProtoField& field) {
      switch (field.number) {
        case HloComputationProto::kNameFieldNumber:
        case HloComputationProto::kExecutionThreadFieldNumber:
        case HloComputationProto::kIdFieldNumber:
        case HloComputationProto::kRootIdFieldNumber:
        case HloComputationProto::kInstructionsFieldNumber:
          break;
        case HloComputationProto::kProgramShapeFieldNumber:
          write_program_shape(field, &writer);
          break;
        default:
          writer.copy(field.whole);
      }
      return true;
    });
    writer.number(HloComputationProto::kIdFieldNumber, computation.number);
    writer.number(HloComputationProto::kRootIdFieldNumber, number_of(computation.root));
    std::string bytes;
    for (std::size_t i = 0; i < computation.order.size(); ++i) {
      const Instruction& each = computation.instructions[computation.order[i]];
      bytes.clear();
      {
        ProtoWriter instruction(&bytes);
        write_content(each, &instruction);
        instruction.number(HloInstructionProto::kIdFieldNumber,
                           static_cast<std::int64_t>(i));
        for (const auto id : each.operands) {
          instruction.number(HloInstructionProto::kOperandIdsFieldNumber,
                             number_of(id));
        }
        for (const auto id : each.predecessors) {
          instruction.number(HloInstructionProto::kControlPredecessorIdsFieldNumber,
                             number_of(id));
        }
        for (const auto id : each.called) {
          instruction.number(HloInstructionProto::kCalledComputationIdsFieldNumber,
                             computations_.at(id).number);
        }
      }
      writer.bytes(HloComputationProto::kInstructionsFieldNumber, bytes);
    }
  }

  std::string_view module_;
  std::int64_t entry_ = 0;
  // Pointers into it are kept: no flat map.
  std::unordered_map<std::int64_t, Computation> computations_;
  absl::flat_hash_map<const Computation*, bool> effects_;
  std::vector<const Computation*> kept_;
};

}  // namespace

absl::StatusOr<std::string> canonical_bytes(std::string_view hlo) {
  Canonical canonical;
  if (!canonical.read(hlo)) {
    return absl::InvalidArgumentError("it is not a whole HloModuleProto");
  }
  return canonical.bytes();
}

}  // namespace ipufeed
