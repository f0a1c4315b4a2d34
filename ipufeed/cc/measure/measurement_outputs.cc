#include "measure/measurement_outputs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tensorflow/core/framework/tensor.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;

absl::Status set_text(OpKernelContext* ctx, int index, const std::string& text,
                      const TensorShape& shape) {
  Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(index, shape, &output));
  output->flat<tstring>()(0) = text;
  return absl::OkStatus();
}

// The counters of the measurement by name, so that Python does not rely on an order.
std::vector<std::pair<const char*, std::int64_t>> counters(const Measurement& m) {
  return {{"requested_ns", m.requested_ns},
          {"created_ns", m.created_ns},
          {"first_ns", m.first_ns},
          {"steady_ns", m.steady_ns},
          {"last_ns", m.last_ns},
          {"finished_ns", m.finished_ns},
          {"elements", m.elements},
          {"bytes", m.bytes},
          {"opaque", m.opaque},
          {"copy_ns", m.copy_ns},
          {"first_copy_ns", m.first_copy_ns},
          {"starved_ns", m.starved_ns},
          {"blocked_ns", m.blocked_ns},
          {"consumer_parks", m.consumer_parks},
          {"feeder_parks", m.feeder_parks},
          {"cpu_ns", m.cpu_ns},
          {"cpu_wall_ns", m.cpu_wall_ns},
          {"consumer_cpu_ns", m.consumer_cpu_ns},
          {"feeder_cpu_ns", m.feeder_cpu_ns},
          {"capacity", m.capacity},
          {"epochs_per_entry", m.epochs_per_entry},
          {"ended", m.ended},
          {"stopped", m.stopped},
          {"same_leading_dimension", m.same_leading_dimension}};
}

}  // namespace

absl::Status set_numbers(OpKernelContext* ctx, int index,
                         const std::vector<std::int64_t>& values,
                         const TensorShape& shape) {
  Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(index, shape, &output));
  std::copy(values.begin(), values.end(), output->flat<std::int64_t>().data());
  return absl::OkStatus();
}

absl::Status set_outputs(OpKernelContext* ctx, const Measurement& m) {
  const auto table = counters(m);
  const auto rows = static_cast<std::int64_t>(table.size());
  Tensor* names = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({rows}), &names));
  std::vector<std::int64_t> values;
  for (const auto& [name, value] : table) {
    names->flat<tstring>()(static_cast<std::int64_t>(values.size())) = name;
    values.push_back(value);
  }
  TF_RETURN_IF_ERROR(set_numbers(ctx, 1, values, TensorShape({rows})));
  std::vector<std::int64_t> epochs;
  for (const Epoch& e : m.epochs) {
    epochs.insert(epochs.end(), {e.elements, e.bytes, e.samples, e.start_ns, e.end_ns});
  }
  const auto epoch_rows = static_cast<std::int64_t>(m.epochs.size());
  TF_RETURN_IF_ERROR(set_numbers(ctx, 2, epochs, TensorShape({epoch_rows, 5})));
  const auto stamps = static_cast<std::int64_t>(m.stamps.size());
  TF_RETURN_IF_ERROR(set_numbers(ctx, 3, m.stamps, TensorShape({stamps})));
  TF_RETURN_IF_ERROR(set_numbers(ctx, 4, {m.failure.raw_code()}, TensorShape({})));
  TF_RETURN_IF_ERROR(
      set_text(ctx, 5, std::string(m.failure.message()), TensorShape({})));
  std::vector<std::int64_t> marks;
  for (const Mark& mark : m.marks) {
    marks.insert(marks.end(), {mark.at_ns, mark.elements, mark.bytes, mark.starved_ns,
                               mark.blocked_ns, mark.depth_sum, mark.samples});
  }
  const auto mark_rows = static_cast<std::int64_t>(m.marks.size());
  return set_numbers(ctx, 6, marks, TensorShape({mark_rows, 7}));
}

}  // namespace ipufeed
