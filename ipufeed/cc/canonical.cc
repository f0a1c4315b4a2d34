// What a program computes, in bytes that are the same wherever it was traced: names and
// what only people read are dropped, computations and instructions are numbered in
// their order, and map fields are written in the order of their keys.

#include <cstdint>
#include <string>
#include <unordered_map>

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

using Numbers = std::unordered_map<std::int64_t, std::int64_t>;

template <class Ids>
bool renumber(const Numbers& numbers, bool local, Ids* ids) {
  for (auto& id : *ids) {
    const auto found = numbers.find(local ? local_id(id) : id);
    if (found == numbers.end()) return false;
    id = found->second;
  }
  return true;
}

bool number_instructions(const Numbers& computations,
                         xla::HloComputationProto* computation) {
  Numbers instructions;
  for (const auto& each : computation->instructions()) {
    instructions.emplace(local_id(each.id()), instructions.size());
  }
  const auto root = instructions.find(local_id(computation->root_id()));
  if (root == instructions.end()) return false;
  computation->set_root_id(root->second);
  std::int64_t next = 0;
  for (auto& each : *computation->mutable_instructions()) {
    each.clear_metadata();
    each.clear_name();
    each.set_id(next++);
    if (!renumber(instructions, true, each.mutable_operand_ids()) ||
        !renumber(instructions, true, each.mutable_control_predecessor_ids()) ||
        !renumber(computations, false, each.mutable_called_computation_ids())) {
      return false;
    }
  }
  return true;
}

bool canonicalise(xla::HloModuleProto* module) {
  module->set_name("m");
  module->set_id(0);
  module->clear_entry_computation_name();
  module->clear_stack_frame_index();
  module->mutable_host_program_shape()->clear_parameter_names();
  Numbers computations;
  for (const auto& each : module->computations()) {
    computations.emplace(each.id(), computations.size());
  }
  const auto entry = computations.find(module->entry_computation_id());
  if (entry == computations.end()) return false;
  module->set_entry_computation_id(entry->second);
  for (auto& each : *module->mutable_computations()) {
    each.set_id(computations[each.id()]);
    each.clear_name();
    each.clear_execution_thread();
    each.mutable_program_shape()->clear_parameter_names();
    if (!number_instructions(computations, &each)) return false;
  }
  return true;
}

}  // namespace
}  // namespace ipufeed

// Gives the canonical bytes of a serialised HloModuleProto to `take`, before it
// returns.
IPUFEED_API void ipufeed_canonical(const char* hlo, std::int64_t size,
                                   ipufeed::TakeBytes take) {
  xla::HloModuleProto module;
  if (!module.ParseFromArray(hlo, static_cast<int>(size)) ||
      !ipufeed::canonicalise(&module)) {
    const std::string why = "it is no whole HloModuleProto";
    take(0, why.data(), static_cast<std::int64_t>(why.size()));
    return;
  }
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    module.SerializeToCodedStream(&coded);
  }
  take(1, bytes.data(), static_cast<std::int64_t>(bytes.size()));
}
