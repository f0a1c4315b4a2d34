// A dataset whose elements are cast to dtypes that infeeds carry.
//
// In place of a map of casts: to call its function costs more than to cast a small
// element, and wakes threads of TensorFlow's pool. This casts on the thread that
// iterates.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/passing_dataset.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using namespace tensorflow::data;  // NOLINT: the base classes' types, a dozen of them

REGISTER_OP("IpufeedNarrowDataset")
    .Input("input_dataset: variant")
    .Output("handle: variant")
    .Attr("misfits: list(string)")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("metadata: string = ''")
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Casts the components of a dataset's elements to `output_types`: integers to int32, other numbers
to float32. The k-th of `misfits` is the error of an integer of the k-th component that does not
fit.
)doc");

// Casts `count` numbers, and returns whether all of them fit.
template <class From, class To>
bool cast(const From* from, To* to, std::int64_t count) {
  bool fits = true;  // without a branch, so that the loop is vectorized
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<To>(from[i]);
    if constexpr (std::is_unsigned_v<From>) {
      fits &= from[i] <= static_cast<From>(std::numeric_limits<To>::max());
    } else if constexpr (std::is_integral_v<From>) {
      fits &= static_cast<From>(to[i]) == from[i];
    }
  }
  return fits;
}

using Cast = bool (*)(const Tensor&, Tensor*);

template <class From, class To>
bool cast_tensor(const Tensor& from, Tensor* to) {
  return cast(from.flat<From>().data(), to->flat<To>().data(), from.NumElements());
}

// The cast from one dtype to another; null if the op has none.
Cast find_cast(DataType from, DataType to) {
  if (to == tensorflow::DT_FLOAT) {
    if (from == tensorflow::DT_DOUBLE) return cast_tensor<double, float>;
    if (from == tensorflow::DT_BFLOAT16) {
      return cast_tensor<tensorflow::bfloat16, float>;
    }
  } else if (to == tensorflow::DT_INT32) {
    if (from == tensorflow::DT_INT64) return cast_tensor<std::int64_t, std::int32_t>;
    if (from == tensorflow::DT_UINT64) return cast_tensor<std::uint64_t, std::int32_t>;
    if (from == tensorflow::DT_UINT32) return cast_tensor<std::uint32_t, std::int32_t>;
    if (from == tensorflow::DT_INT16) return cast_tensor<std::int16_t, std::int32_t>;
    if (from == tensorflow::DT_UINT16) return cast_tensor<std::uint16_t, std::int32_t>;
  }
  return nullptr;
}

class NarrowDataset : public PassingDataset {
 public:
  NarrowDataset(OpKernelContext* ctx, const DatasetBase* input,
                tensorflow::DataTypeVector types, std::vector<std::string> misfits)
      : PassingDataset(ctx, input),
        types_(std::move(types)),
        misfits_(std::move(misfits)) {}

  const tensorflow::DataTypeVector& output_dtypes() const override { return types_; }

  std::unique_ptr<IteratorBase> MakeIteratorInternal(
      const std::string& prefix) const override {
    return make_iterator<Iterator>(this, prefix);
  }

 protected:
  absl::Status AsGraphDefInternal(SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                  tensorflow::Node** output) const override {
    tensorflow::Node* node = nullptr;
    TF_RETURN_IF_ERROR(b->AddInputDataset(ctx, input(), &node));
    tensorflow::AttrValue misfits;
    b->BuildAttrValue(misfits_, &misfits);
    return b->AddDataset(this, {node}, {{"misfits", misfits}}, output);
  }

 private:
  class Iterator : public PassingIterator<NarrowDataset> {
   public:
    using PassingIterator<NarrowDataset>::PassingIterator;

    absl::Status GetNextInternal(IteratorContext* ctx, std::vector<Tensor>* out,
                                 bool* end) override {
      TF_RETURN_IF_ERROR(input()->GetNext(ctx, out, end));
      if (*end) return absl::OkStatus();
      for (std::size_t i = 0; i < out->size(); ++i) {
        TF_RETURN_IF_ERROR(narrow(ctx, i, &(*out)[i]));
      }
      return absl::OkStatus();
    }

   private:
    absl::Status narrow(IteratorContext* ctx, std::size_t i, Tensor* component) {
      const DataType type = dataset()->types_[i];
      if (component->dtype() == type) return absl::OkStatus();
      Tensor result(ctx->allocator({}), type, component->shape());
      if (!result.IsInitialized()) {
        return absl::ResourceExhaustedError(
            absl::StrCat("No memory for ", result.TotalBytes(), " bytes of a cast."));
      }
      // Not null: the op has looked for it.
      if (!find_cast(component->dtype(), type)(*component, &result)) {
        return absl::InvalidArgumentError(dataset()->misfits_[i]);
      }
      *component = std::move(result);
      return absl::OkStatus();
    }
  };

  const tensorflow::DataTypeVector types_;
  const std::vector<std::string> misfits_;
};

class NarrowDatasetOp : public UnaryDatasetOpKernel {
 public:
  explicit NarrowDatasetOp(tensorflow::OpKernelConstruction* ctx)
      : UnaryDatasetOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_types", &types_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("misfits", &misfits_));
  }

 protected:
  void MakeDataset(OpKernelContext* ctx, DatasetBase* input,
                   DatasetBase** output) override {
    const tensorflow::DataTypeVector& from = input->output_dtypes();
    OP_REQUIRES(
        ctx, from.size() == types_.size() && from.size() == misfits_.size(),
        absl::InvalidArgumentError(absl::StrCat(
            "`output_types` and `misfits` must have one for each of ", from.size(),
            " components, got ", types_.size(), " and ", misfits_.size(), ".")));
    for (std::size_t i = 0; i < from.size(); ++i) {
      OP_REQUIRES(ctx, from[i] == types_[i] || find_cast(from[i], types_[i]) != nullptr,
                  absl::InvalidArgumentError(absl::StrCat(
                      "Component ", i, " of ", tensorflow::DataTypeString(from[i]),
                      " has no cast to ", tensorflow::DataTypeString(types_[i]), ".")));
    }
    make_guarded(ctx,
                 [&] { *output = new NarrowDataset(ctx, input, types_, misfits_); });
  }

 private:
  tensorflow::DataTypeVector types_;
  std::vector<std::string> misfits_;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedNarrowDataset").Device(tensorflow::DEVICE_CPU),
                        NarrowDatasetOp);

}  // namespace
}  // namespace ipufeed
