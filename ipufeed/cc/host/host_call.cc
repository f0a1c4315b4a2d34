#include "host/host_call.h"

#include <atomic>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/pipeline.h"
#include "replicas/processes.h"

namespace ipufeed {
namespace {

std::atomic<OnHostCall> on_host_call{nullptr};

}  // namespace

// [1] set_on_host_call() -> call_host(): state that Python prepared before is visible
// to the calls.
void set_on_host_call(OnHostCall function) {
  on_host_call.store(function, std::memory_order_release);  // [1]
}

absl::Status call_host(Program& program, const Context& context, HostCall* call) {
  call->run = program.number();
  call->ordinal = program.ordinal();
  call->replica = process_index() * context.replicas + context.replica;
  call->replicas = context.replicas;
  call->mini_batch =
      context.pipeline == nullptr ? -1 : context.pipeline->mini_batch(context.ipu);
  // A loop whose iterations only call the host has no other check of stopped().
  program.watch();
  if (program.stopped()) return program.stop_status();
  if (std::string_view(call->kind) == "library") return call_library(*call);
  const OnHostCall function = on_host_call.load(std::memory_order_acquire);  // [1]
  if (function == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("A program calls the host ('", call->kind,
                     "'), and ipufeed.ops has not been imported in this process."));
  }
  program.announce();  // Python keeps state for a run while it lasts
  char message[4096] = "";
  call->message = message;
  call->message_size = sizeof(message);
  const int code = function(call);
  if (code == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

void HostTensors::add(std::int32_t dtype, std::vector<std::int64_t> shape, void* data) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  tensors_.push_back(
      {dtype, static_cast<std::int32_t>(shape.size()), nullptr, data, elements});
  shapes_.push_back(std::move(shape));
}

const HostTensor* HostTensors::get() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].shape = shapes_[i].data();
  }
  return tensors_.data();
}

}  // namespace ipufeed
