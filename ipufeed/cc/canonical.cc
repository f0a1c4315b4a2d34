// What a program computes, in bytes that are the same wherever it was traced.
//
// Names and what only people read are dropped. What is computed is numbered in the
// order in which the results need it, operands from left to right: TensorFlow lowers
// ops in an order that depends on what arguments and scopes are called. What no result
// needs and has no effect is left out, as XLA will do. Map fields are written in the
// order of their keys.

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "xla/service/hlo.pb.h"

#define IPUFEED_API extern "C" __attribute__((visibility("default")))

namespace ipufeed {
namespace {

// Gets the bytes; `ok` is 0 for what is wrong.
using TakeBytes = void (*)(int ok, const char* bytes, std::int64_t size);

// An instruction's number in its computation. XLA writes that of the computation into
// the upper half, but not everywhere.
std::int64_t local_id(std::int64_t number) { return number & 0xFFFFFFFF; }

using google::protobuf::Arena;
using google::protobuf::RepeatedPtrField;
using xla::HloComputationProto;
using xla::HloInstructionProto;
using xla::HloModuleProto;

// One computation of a module, and what is found out about it.
struct Computation {
  HloComputationProto* proto = nullptr;
  std::unordered_map<std::int64_t, int> places;  // of instructions, by local id
  std::vector<int> order;                        // places of those that are kept
  bool entered = false;
  std::int64_t number = -1;  // among those that are kept
};

std::string bytes_of(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

// What an instruction does to more than its result.
bool acts(const HloInstructionProto& each) {
  static const auto* const kOpcodes = new absl::flat_hash_set<std::string>{
      "infeed", "outfeed",  "recv", "recv-done", "rng", "rng-get-and-update-state",
      "send",   "send-done"};
  return each.custom_call_has_side_effect() || kOpcodes->contains(each.opcode());
}

void drop_names(HloInstructionProto* each) {
  each->clear_metadata();
  each->clear_name();
}

class Canonical {
 public:
  explicit Canonical(HloModuleProto* module) : module_(module) {}

  // False for what is no whole program.
  bool rewrite() {
    for (auto& each : *module_->mutable_computations()) {
      Computation& computation = computations_[each.id()];
      computation.proto = &each;
      for (const auto& instruction : each.instructions()) {
        const int place = static_cast<int>(computation.places.size());
        computation.places.emplace(local_id(instruction.id()), place);
      }
    }
    if (!order(module_->entry_computation_id())) return false;
    module_->set_entry_computation_id(
        computations_[module_->entry_computation_id()].number);
    auto& kept =
        *Arena::Create<RepeatedPtrField<HloComputationProto>>(module_->GetArena());
    for (Computation* each : kept_) {
      write(*each);
      kept.Add()->Swap(each->proto);
    }
    module_->mutable_computations()->Swap(&kept);
    module_->set_name("m");
    module_->set_id(0);
    module_->clear_entry_computation_name();
    module_->clear_stack_frame_index();
    module_->mutable_host_program_shape()->clear_parameter_names();
    return true;
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
    const auto root = computation.places.find(local_id(computation.proto->root_id()));
    if (root == computation.places.end()) return false;
    const auto& instructions = computation.proto->instructions();
    std::vector<char> seen(instructions.size(), 0);
    std::vector<int> parameters;
    std::vector<int> sinks;
    for (int i = 0; i < instructions.size(); ++i) {
      if (instructions[i].opcode() == "parameter") parameters.push_back(i);
    }
    std::sort(parameters.begin(), parameters.end(), [&](int a, int b) {
      return instructions[a].parameter_number() < instructions[b].parameter_number();
    });
    for (const int each : parameters) {
      if (!reach(computation, each, &seen)) return false;
    }
    if (!reach(computation, root->second, &seen)) return false;
    for (int i = 0; i < instructions.size(); ++i) {
      if (!seen[i] && has_effect(instructions[i])) sinks.push_back(i);
    }
    if (sinks.size() > 1 && !sort_by_content(computation, &sinks)) return false;
    for (const int each : sinks) {
      if (!reach(computation, each, &seen)) return false;
    }
    for (const int each : computation.order) {
      for (const auto called : instructions[each].called_computation_ids()) {
        if (!order(called)) return false;
      }
    }
    computation.number = static_cast<std::int64_t>(kept_.size());
    kept_.push_back(&computation);
    return true;
  }

  // Whether an instruction, or what it calls, does more than its result.
  bool has_effect(const HloInstructionProto& each) {
    const auto& called = each.called_computation_ids();
    return acts(each) || std::any_of(called.begin(), called.end(), [this](auto id) {
             const auto inner = computations_.find(id);
             return inner != computations_.end() && has_effect(&inner->second);
           });
  }

  bool has_effect(const Computation* computation) {
    const auto known = effects_.find(computation);
    if (known != effects_.end()) return known->second;
    effects_[computation] = false;  // until it is known: nothing calls itself
    const auto& instructions = computation->proto->instructions();
    return effects_[computation] =
               std::any_of(instructions.begin(), instructions.end(),
                           [this](const auto& each) { return has_effect(each); });
  }

  // Appends what an instruction needs, and then it, to the order: deep first, operands
  // from left to right.
  static bool reach(Computation& computation, int start, std::vector<char>* seen) {
    struct Step {
      int place;
      int next;
    };
    if ((*seen)[start]) return true;
    std::vector<Step> stack{{start, 0}};
    (*seen)[start] = 1;
    while (!stack.empty()) {
      Step& step = stack.back();
      const auto& each = computation.proto->instructions(step.place);
      const int operands = each.operand_ids_size();
      if (step.next == operands + each.control_predecessor_ids_size()) {
        computation.order.push_back(step.place);
        stack.pop_back();
        continue;
      }
      const std::int64_t id = step.next < operands
                                  ? each.operand_ids(step.next)
                                  : each.control_predecessor_ids(step.next - operands);
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
    const auto& instructions = computation.proto->instructions();
    std::vector<std::size_t> contents(instructions.size(), 0);
    for (int i = 0; i < instructions.size(); ++i) {
      HloInstructionProto bare = instructions[i];
      drop_names(&bare);
      bare.clear_id();
      bare.clear_operand_ids();
      bare.clear_control_predecessor_ids();
      bare.clear_called_computation_ids();
      std::string content = bytes_of(bare);
      for (const auto id : instructions[i].operand_ids()) {
        const auto operand = computation.places.find(local_id(id));
        // Operands come first in a module.
        if (operand == computation.places.end() || operand->second >= i) return false;
        content += std::to_string(contents[operand->second]) + ",";
      }
      contents[i] = std::hash<std::string>()(content);
    }
    std::stable_sort(sinks->begin(), sinks->end(),
                     [&](int a, int b) { return contents[a] < contents[b]; });
    return true;
  }

  void write(Computation& computation) {
    HloComputationProto* proto = computation.proto;
    proto->set_id(computation.number);
    proto->clear_name();
    proto->clear_execution_thread();
    proto->mutable_program_shape()->clear_parameter_names();
    std::unordered_map<int, std::int64_t> numbers;
    for (const int place : computation.order) numbers.emplace(place, numbers.size());
    const auto number_of = [&](std::int64_t id) {
      return numbers.at(computation.places.at(local_id(id)));
    };
    proto->set_root_id(number_of(proto->root_id()));
    auto& kept =
        *Arena::Create<RepeatedPtrField<HloInstructionProto>>(module_->GetArena());
    for (const int place : computation.order) {
      HloInstructionProto* each = kept.Add();
      each->Swap(proto->mutable_instructions(place));
      drop_names(each);
      each->set_id(kept.size() - 1);
      for (auto& id : *each->mutable_operand_ids()) id = number_of(id);
      for (auto& id : *each->mutable_control_predecessor_ids()) id = number_of(id);
      for (auto& id : *each->mutable_called_computation_ids()) {
        id = computations_.at(id).number;
      }
    }
    proto->mutable_instructions()->Swap(&kept);
  }

  HloModuleProto* const module_;
  std::unordered_map<std::int64_t, Computation> computations_;
  std::unordered_map<const Computation*, bool> effects_;
  std::vector<Computation*> kept_;
};

}  // namespace
}  // namespace ipufeed

// Gives the canonical bytes of a serialised HloModuleProto to `take`, before it
// returns.
IPUFEED_API void ipufeed_canonical(const char* hlo, std::int64_t size,
                                   ipufeed::TakeBytes take) {
  // In one piece of memory, which is freed at once.
  google::protobuf::Arena arena;
  auto* module = google::protobuf::Arena::Create<xla::HloModuleProto>(&arena);
  if (!module->ParseFromArray(hlo, static_cast<int>(size)) ||
      !ipufeed::Canonical(module).rewrite()) {
    const std::string why = "it is no whole HloModuleProto";
    take(0, why.data(), static_cast<std::int64_t>(why.size()));
    return;
  }
  const std::string bytes = ipufeed::bytes_of(*module);
  take(1, bytes.data(), static_cast<std::int64_t>(bytes.size()));
}
