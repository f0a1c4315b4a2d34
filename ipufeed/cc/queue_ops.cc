#include "queue_ops.h"

#include <cstddef>
#include <vector>

#include "tensorflow/core/framework/tensor_shape.h"

namespace ipufeed {

using tensorflow::PartialTensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

absl::Status component_shapes(InferenceContext* c, bool batched) {
  std::vector<PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
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

}  // namespace ipufeed
