#include "xla/lowering/token_chain.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "xla/calls/names.h"
#include "xla/shape_util.h"
#include "xla/xla_data.pb.h"

namespace ipufeed {
namespace {

using xla::HloComputationProto;
using xla::HloInstructionProto;
using xla::HloModuleProto;
using xla::ShapeProto;

bool is_assert(const HloInstructionProto& each) {
  return each.opcode() == "custom-call" && each.custom_call_target() == kAssert;
}

// The calls whose last operand is a token and whose last result is the next one.
bool takes_token(const HloInstructionProto& each) {
  static const auto* const targets = new std::unordered_set<std::string_view>{
      kClock,    kDequeue, kEnqueue,  kCollectiveOfAll, kCollectiveOfGroup,
      kPipeline, kReceive, kSend,     kBegins,          kEnds,
      kEnters,   kStep,    kHostCall, kAssert};
  return each.opcode() == "custom-call" &&
         targets->count(each.custom_call_target()) != 0;
}

ShapeProto token_proto() {
  return xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::U32, {}).ToProto();
}

bool is_tuple_proto(const ShapeProto& shape) {
  return shape.element_type() == xla::TUPLE;
}

// With a token after it: a tuple has one element more, another value becomes the first
// of two.
ShapeProto with_token(const ShapeProto& shape) {
  ShapeProto both;
  if (is_tuple_proto(shape)) {
    both = shape;
  } else {
    both.set_element_type(xla::TUPLE);
    *both.add_tuple_shapes() = shape;
  }
  *both.add_tuple_shapes() = token_proto();
  return both;
}

// What a computation is called as, which decides what its signature becomes.
enum class ChainRole { kEntry, kCondition, kOther };

// Appends instructions to a computation that is written again.
class ChainWriter {
 public:
  explicit ChainWriter(HloComputationProto* computation) : computation_(computation) {
    old_.Swap(computation->mutable_instructions());
    for (const HloInstructionProto& each : old_) {
      next_ = std::max(next_, (each.id() & kLocal) + 1);
      upper_ = each.id() & ~kLocal;
      shapes_[each.id() & kLocal] = each.shape();
    }
  }

  google::protobuf::RepeatedPtrField<HloInstructionProto>& old() { return old_; }

  HloInstructionProto* add(const char* opcode, const ShapeProto& shape,
                           const std::vector<std::int64_t>& operands) {
    return add_as(new_id(), opcode, shape, operands);
  }

  // Under a number that other instructions refer to already.
  HloInstructionProto* add_as(std::int64_t id, const char* opcode,
                              const ShapeProto& shape,
                              const std::vector<std::int64_t>& operands) {
    HloInstructionProto* made = computation_->add_instructions();
    made->set_id(id);
    made->set_name(name_of(id));
    made->set_opcode(opcode);
    *made->mutable_shape() = shape;
    for (const std::int64_t operand : operands) made->add_operand_ids(operand);
    shapes_[id & kLocal] = shape;
    return made;
  }

  // An old instruction, as it is.
  HloInstructionProto* keep(HloInstructionProto* instruction) {
    HloInstructionProto* kept = computation_->add_instructions();
    kept->Swap(instruction);
    return kept;
  }

  // An old instruction under a new number, with a shape that has a token: `restore`
  // gives what the users of the old number need.
  HloInstructionProto* keep_with_token(HloInstructionProto* instruction) {
    HloInstructionProto* kept = keep(instruction);
    kept->set_id(new_id());
    kept->set_name(name_of(kept->id()));
    kept->clear_sharding();
    *kept->mutable_shape() = with_token(kept->shape());
    shapes_[kept->id() & kLocal] = kept->shape();
    return kept;
  }

  std::int64_t element(std::int64_t tuple, std::int64_t index) {
    const ShapeProto shape = shape_of(tuple).tuple_shapes(static_cast<int>(index));
    HloInstructionProto* made = add("get-tuple-element", shape, {tuple});
    made->set_tuple_index(index);
    return made->id();
  }

  std::int64_t token_of(std::int64_t tuple) {
    return element(tuple, shape_of(tuple).tuple_shapes_size() - 1);
  }

  // The value and the token in one tuple: see with_token.
  std::int64_t join(std::int64_t value, std::int64_t token) {
    const ShapeProto shape = shape_of(value);
    std::vector<std::int64_t> parts;
    if (is_tuple_proto(shape)) {
      for (int i = 0; i < shape.tuple_shapes_size(); ++i) {
        parts.push_back(element(value, i));
      }
    } else {
      parts.push_back(value);
    }
    parts.push_back(token);
    return add("tuple", with_token(shape), parts)->id();
  }

  // The value of a tuple that join has made, under the number `id`; gives the token.
  std::int64_t restore(std::int64_t both, std::int64_t id) {
    const ShapeProto shape = shape_of(id);
    if (is_tuple_proto(shape)) {
      std::vector<std::int64_t> parts;
      parts.reserve(static_cast<std::size_t>(shape.tuple_shapes_size()));
      for (int i = 0; i < shape.tuple_shapes_size(); ++i) {
        parts.push_back(element(both, i));
      }
      add_as(id, "tuple", shape, parts);
    } else {
      add_as(id, "get-tuple-element", shape, {both})->set_tuple_index(0);
    }
    return token_of(both);
  }

 private:
  // The upper half of a number may be the computation's.
  static constexpr std::int64_t kLocal = 0xFFFFFFFF;

  const ShapeProto& shape_of(std::int64_t id) const { return shapes_.at(id & kLocal); }

  std::int64_t new_id() { return upper_ | next_++; }

  std::string name_of(std::int64_t id) const {
    return absl::StrCat("queue_token.", computation_->id(), ".", id & kLocal);
  }

  HloComputationProto* const computation_;
  google::protobuf::RepeatedPtrField<HloInstructionProto> old_;
  std::unordered_map<std::int64_t, ShapeProto> shapes_;
  std::int64_t next_ = 0;
  std::int64_t upper_ = 0;
};

class ChainPass {
 public:
  explicit ChainPass(HloModuleProto* module) : module_(module) {
    for (HloComputationProto& each : *module->mutable_computations()) {
      computations_[each.id()] = &each;
    }
  }

  void run() {
    if (!holds_effects()) return;
    const std::int64_t entry = module_->entry_computation_id();
    if (holds_calls(entry)) rewrite(entry, ChainRole::kEntry);
  }

 private:
  // Whether the program has a call that an assertion can hold back. Without one its
  // assertions need no order, and its loops no token.
  bool holds_effects() const {
    for (const auto& each : module_->computations()) {
      for (const HloInstructionProto& instruction : each.instructions()) {
        if (takes_token(instruction) && !is_assert(instruction)) return true;
      }
    }
    return false;
  }

  static bool is_control_flow(const HloInstructionProto& each) {
    return each.opcode() == "while" || each.opcode() == "conditional" ||
           each.opcode() == "call";
  }

  // Whether a computation, or one that it calls, has a call with a token.
  bool holds_calls(std::int64_t id) {
    const auto known = holds_calls_.find(id);
    if (known != holds_calls_.end()) return known->second;
    bool holds = false;
    for (const HloInstructionProto& each : computations_.at(id)->instructions()) {
      holds = holds || takes_token(each) || carries_token(each);
    }
    return holds_calls_[id] = holds;
  }

  bool carries_token(const HloInstructionProto& each) {
    if (!is_control_flow(each)) return false;
    const auto& called = each.called_computation_ids();
    return std::any_of(called.begin(), called.end(),
                       [this](std::int64_t id) { return holds_calls(id); });
  }

  void rewrite(std::int64_t id, ChainRole role) {
    // Two instructions may call the same computation, in the same role.
    if (!rewritten_.insert(id).second) return;
    HloComputationProto* computation = computations_.at(id);
    ChainWriter writer(computation);
    std::int64_t token = 0;
    const bool takes_own = role != ChainRole::kEntry && is_function_[id];
    if (role == ChainRole::kEntry) {
      HloInstructionProto* zero = writer.add("constant", token_proto(), {});
      *zero->mutable_literal()->mutable_shape() = token_proto();
      zero->mutable_literal()->add_u32s(0);
      token = zero->id();
    } else if (takes_own) {
      token = add_parameter(computation, &writer);
    }
    for (HloInstructionProto& each : writer.old()) {
      if (each.opcode() != "parameter") continue;  // these come first
      if (role == ChainRole::kEntry || takes_own) {
        writer.keep(&each);
      } else {
        token = widen_parameter(computation, &writer, &each);
      }
    }
    for (HloInstructionProto& each : writer.old()) {
      if (each.opcode().empty()) continue;  // a parameter
      if (takes_token(each)) {
        each.set_operand_ids(each.operand_ids_size() - 1, token);
        token = writer.token_of(writer.keep(&each)->id());
      } else if (carries_token(each)) {
        token = pass_through(&writer, &each, token);
      } else {
        writer.keep(&each);
      }
    }
    if (role == ChainRole::kOther) {
      computation->set_root_id(writer.join(computation->root_id(), token));
      auto* shape = computation->mutable_program_shape();
      *shape->mutable_result() = with_token(shape->result());
    }
  }

  // A function's token is a parameter of its own.
  static std::int64_t add_parameter(HloComputationProto* computation,
                                    ChainWriter* writer) {
    auto* shape = computation->mutable_program_shape();
    HloInstructionProto* made = writer->add("parameter", token_proto(), {});
    made->set_parameter_number(shape->parameters_size());
    *shape->add_parameters() = token_proto();
    shape->add_parameter_names(made->name());
    return made->id();
  }

  // That of a loop or a branch belongs to the one parameter that they have.
  static std::int64_t widen_parameter(HloComputationProto* computation,
                                      ChainWriter* writer,
                                      HloInstructionProto* parameter) {
    const std::int64_t id = parameter->id();
    auto* shape = computation->mutable_program_shape()->mutable_parameters(0);
    *shape = with_token(*shape);
    return writer->restore(writer->keep_with_token(parameter)->id(), id);
  }

  // A loop, a conditional or a call of a function; gives the token that it gives.
  std::int64_t pass_through(ChainWriter* writer, HloInstructionProto* each,
                            std::int64_t token) {
    const std::int64_t id = each->id();
    const bool is_loop = each->opcode() == "while";
    const bool is_call = each->opcode() == "call";
    for (int i = 0; i < each->called_computation_ids_size(); ++i) {
      const std::int64_t called = each->called_computation_ids(i);
      is_function_[called] = is_call;
      // A loop's body precedes its condition.
      rewrite(called, is_loop && i == 1 ? ChainRole::kCondition : ChainRole::kOther);
    }
    if (is_call) {
      each->add_operand_ids(token);
    } else {
      // The first operand of a conditional chooses the branch.
      for (int i = is_loop ? 0 : 1; i < each->operand_ids_size(); ++i) {
        each->set_operand_ids(i, writer->join(each->operand_ids(i), token));
      }
    }
    return writer->restore(writer->keep_with_token(each)->id(), id);
  }

  HloModuleProto* const module_;
  std::unordered_map<std::int64_t, HloComputationProto*> computations_;
  std::unordered_map<std::int64_t, bool> holds_calls_;
  std::unordered_map<std::int64_t, bool> is_function_;  // of a `call`
  std::unordered_set<std::int64_t> rewritten_;
};

}  // namespace

void chain_tokens(HloModuleProto* module) { ChainPass(module).run(); }

}  // namespace ipufeed
