#include "feeds/queue_ops.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "feeds/outfeed.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace ipufeed {

using tensorflow::PartialTensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

absl::Status component_shapes(InferenceContext* c, bool batched) {
  ShapeHandle number;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &number));
  std::vector<PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
  std::vector<tensorflow::DataType> dtypes;
  TF_RETURN_IF_ERROR(c->GetAttr("dtypes", &dtypes));
  TF_RETURN_IF_ERROR(check_signature(dtypes.size(), shapes.size()));
  bool replicated = false;  // an attribute of those that read results
  if (c->GetAttr("replicated", &replicated).ok() && replicated) {
    for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->UnknownShape());
    return absl::OkStatus();
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    if (batched) {
      TF_RETURN_IF_ERROR(
          c->Concatenate(c->Vector(InferenceContext::kUnknownDim), shape, &shape));
    }
    c->set_output(static_cast<int>(i), shape);
  }
  return absl::OkStatus();
}

absl::Status check_signature(std::size_t dtypes, std::size_t shapes) {
  if (dtypes == shapes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`dtypes` and `shapes` must have as many entries, got ", dtypes,
                   " and ", shapes, "."));
}

absl::Status check_capacity(std::int64_t capacity) {
  if (capacity >= 1 && capacity <= kMostCapacity) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "`capacity` must be in [1, ", kMostCapacity, "], got ", capacity, "."));
}

absl::Status token_shape_fn(InferenceContext* c, std::initializer_list<int> scalars) {
  ShapeHandle ignored;
  for (const int input : scalars) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(input), 0, &ignored));
  }
  c->set_output(c->num_outputs() - 1, c->Scalar());
  return absl::OkStatus();
}

}  // namespace ipufeed
