// The ops that take a dataset apart and put an edited one together.
//
// As TensorFlow's own graph rewrites do it (RewriteDataset in core/data): the dataset's
// graph with what it has captured (variables, tables, generators) as placeholders, and
// those fed again when the edited graph is run. So the user's functions are neither
// called nor traced again.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset_op.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/common_runtime/graph_runner.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/data/dataset_utils.h"
#include "tensorflow/core/data/root_dataset.h"
#include "tensorflow/core/data/serialization_utils.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;
using tensorflow::data::DatasetBase;

using Inputs = std::vector<std::pair<std::string, Tensor>>;

absl::Status set_scalar(OpKernelContext* ctx, int index, std::string text) {
  Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(index, TensorShape({}), &output));
  output->scalar<tstring>()() = std::move(text);
  return absl::OkStatus();
}

absl::Status set_dataset(OpKernelContext* ctx, DatasetBase* dataset) {
  Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({}), &output));
  dataset->Ref();  // which the tensor takes over
  return tensorflow::data::StoreDatasetInVariantTensor(dataset, output);
}

REGISTER_OP("IpufeedDatasetGraph")
    .Input("dataset: variant")
    .Attr("rewrite: bool = true")
    .Output("rewritten: variant")
    .Output("graph: string")
    .Output("node: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
The dataset's graph (a GraphDef) and the node in it that gives the dataset.

rewrite: As training runs it, after tf.data's rewrites; rewritten is then that dataset, and
else the one given.
)doc");

class DatasetGraphOp : public LongDatasetOp {
 public:
  explicit DatasetGraphOp(tensorflow::OpKernelConstruction* ctx) : LongDatasetOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rewrite", &rewrite_));
  }

 private:
  absl::Status run(OpKernelContext* ctx, DatasetBase* dataset) override {
    tensorflow::core::RefCountPtr<DatasetBase> finalized;
    const DatasetBase* described = dataset;
    if (rewrite_) {
      DatasetBase* root = nullptr;
      TF_RETURN_IF_ERROR(tensorflow::data::FinalizeDataset(ctx, dataset, &root));
      finalized.reset(root);
      std::vector<const DatasetBase*> inputs;
      TF_RETURN_IF_ERROR(root->InputDatasets(&inputs));
      if (inputs.size() != 1) {
        return absl::InternalError("a finalized dataset has more than one input.");
      }
      described = inputs[0];
    }
    Inputs inputs;
    tensorflow::GraphDef graph;
    std::string node;
    TF_RETURN_IF_ERROR(
        tensorflow::data::AsGraphDefForRewrite(ctx, described, &inputs, &graph, &node));
    TF_RETURN_IF_ERROR(set_dataset(ctx, const_cast<DatasetBase*>(described)));
    TF_RETURN_IF_ERROR(set_scalar(ctx, 1, graph.SerializeAsString()));
    return set_scalar(ctx, 2, node);
  }

  bool rewrite_ = true;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedDatasetGraph").Device(tensorflow::DEVICE_CPU),
                        DatasetGraphOp);

REGISTER_OP("IpufeedDatasetFromGraph")
    .Input("dataset: variant")
    .Input("graph: string")
    .Input("node: string")
    .Output("edited: variant")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
The dataset that a node of an edited graph gives.

dataset: what IpufeedDatasetGraph returned with the graph: whatever the graph leaves as
placeholders is taken from it.
)doc");

class DatasetFromGraphOp : public LongDatasetOp {
 public:
  using LongDatasetOp::LongDatasetOp;

 private:
  absl::Status run(OpKernelContext* ctx, DatasetBase* dataset) override {
    Inputs inputs;
    tensorflow::GraphDef original;
    std::string unused;
    TF_RETURN_IF_ERROR(tensorflow::data::AsGraphDefForRewrite(ctx, dataset, &inputs,
                                                              &original, &unused));
    tensorflow::GraphDef edited;
    TF_RETURN_IF_ERROR(check_scalars(ctx, {1, 2}));
    if (!edited.ParseFromString(ctx->input(1).scalar<tstring>()())) {
      return absl::InvalidArgumentError("`graph` must be a serialized GraphDef.");
    }
    const std::string node = ctx->input(2).scalar<tstring>()();
    std::unique_ptr<tensorflow::FunctionLibraryDefinition> functions;
    std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> process;
    tensorflow::FunctionLibraryRuntime* runtime = nullptr;
    TF_RETURN_IF_ERROR(ctx->function_library()->Clone(&functions, &process, &runtime,
                                                      /*skip_flib_def=*/true));
    TF_RETURN_IF_ERROR(
        tensorflow::data::AddToFunctionLibrary(functions.get(), edited.library()));
    tensorflow::Graph graph(tensorflow::OpRegistry::Global());
    TF_RETURN_IF_ERROR(tensorflow::ImportGraphDef({}, edited, &graph, nullptr));
    tensorflow::GraphRunner runner(runtime->device());
    std::vector<Tensor> outputs;
    TF_RETURN_IF_ERROR(runner.Run(&graph, runtime, inputs, {node}, &outputs));
    DatasetBase* result = nullptr;
    TF_RETURN_IF_ERROR(
        tensorflow::data::GetDatasetFromVariantTensor(outputs[0], &result));
    return set_dataset(ctx, result);
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedDatasetFromGraph").Device(tensorflow::DEVICE_CPU),
                        DatasetFromGraphOp);

}  // namespace
}  // namespace ipufeed
