// The run of what build_ipu_program() has compiled, on the thread of an IPU: with the
// memory of the pipeline that calls it, and without a kernel of TensorFlow.
#include "pipeline/ipu_program.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/kernels.h"
#include "core/mutex.h"
#include "device/ipu_threads.h"
#include "tensorflow/core/framework/tensor.h"
#include "xla/client/local_client.h"
#include "xla/compile/ipu_executable.h"
#include "xla/compile/program_memory.h"
#include "xla/compile/program_table.h"
#include "xla/service/shaped_buffer.h"
#include "xla/shape_util.h"

namespace ipufeed {
namespace {

// XLA's kernels expect their arguments so aligned.
constexpr std::size_t kBufferAlignment = 64;

// The memory itself, or a copy of it in `copies` where it is not aligned.
absl::StatusOr<void*> aligned(const Memory& memory,
                              std::vector<tensorflow::Tensor>* copies) {
  if (reinterpret_cast<std::uintptr_t>(memory.data) % kBufferAlignment == 0) {
    return memory.data;
  }
  const auto bytes = static_cast<std::int64_t>(memory.bytes);
  tensorflow::Tensor& copy = copies->emplace_back();
  TF_RETURN_IF_ERROR(allocate(tensorflow::DT_UINT8, tensorflow::TensorShape({bytes}),
                              "an argument of a pipeline's IPU", "", &copy));
  if (bytes > 0) std::memcpy(copy.data(), memory.data, memory.bytes);
  return copy.data();
}

}  // namespace

absl::Status run_ipu_program(std::uint64_t key, const Ipu& ipu,
                             const std::vector<Memory>& arguments,
                             const std::vector<Memory>& results) {
  std::shared_ptr<Compiled> compiled;
  {
    const auto entry = entry_of(key);
    MutexLock lock(entry->mutex);
    compiled = entry->any();
  }
  if (compiled == nullptr) {
    return absl::InternalError("The program of a pipeline's IPU has gone.");
  }
  xla::LocalExecutable& executable = *compiled->executable;
  const auto& layout =
      executable.executable()->module_config().entry_computation_layout();
  if (layout.parameter_count() != static_cast<int>(arguments.size())) {
    return absl::InternalError(
        absl::StrCat("The program of a pipeline's IPU takes ", layout.parameter_count(),
                     " arguments and got ", arguments.size(), "."));
  }
  std::vector<tensorflow::Tensor> copies;
  std::vector<xla::ShapedBuffer> buffers;
  buffers.reserve(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const xla::Shape& shape = layout.parameter_shape(static_cast<int>(i));
    const auto wanted = xla::ShapeUtil::ByteSizeOf(shape, sizeof(void*));
    if (wanted != static_cast<std::int64_t>(arguments[i].bytes)) {
      return absl::InternalError(absl::StrCat("The program of a pipeline's IPU takes ",
                                              wanted, " bytes for argument ", i,
                                              " and got ", arguments[i].bytes, "."));
    }
    TF_ASSIGN_OR_RETURN(void* const data, aligned(arguments[i], &copies));
    xla::ShapedBuffer& buffer = buffers.emplace_back(shape, /*device_ordinal=*/0);
    buffer.set_buffer(stream_executor::DeviceAddressBase(data, arguments[i].bytes), {});
  }
  std::vector<const xla::ShapedBuffer*> pointers;
  pointers.reserve(buffers.size());
  for (const xla::ShapedBuffer& buffer : buffers) pointers.push_back(&buffer);
  xla::ExecutableRunOptions options;
  options.set_intra_op_thread_pool(ipu.pool());
  options.set_allocator(program_memory());
  TF_ASSIGN_OR_RETURN(xla::ScopedShapedBuffer result,
                      executable.Run(pointers, options));
  if (results_of(result.on_device_shape()) != static_cast<int>(results.size())) {
    return absl::InternalError(absl::StrCat(
        "The program of a pipeline's IPU gives ", results_of(result.on_device_shape()),
        " results, and there is room for ", results.size(), "."));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto from = result.buffer({static_cast<std::int64_t>(i)});
    if (from.size() != results[i].bytes) {
      return absl::InternalError("A pipeline's result has another size.");
    }
    if (from.size() > 0) std::memcpy(results[i].data, from.opaque(), from.size());
  }
  return absl::OkStatus();
}

}  // namespace ipufeed
