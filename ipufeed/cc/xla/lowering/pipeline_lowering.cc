// A pipeline inside a compiled program, as it is compiled.
//
//   each function -> its own computation -> build_ipu_program() -> key
//   and a custom call with the keys, the arguments and room for the results
//
// Variables: an IPU program gets their values as arguments, as every program does, and
// gives the new ones of those that it has assigned; the call hands them on.
// pipeline_calls.cc runs them.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "feeds/queue_ops.h"
#include "pipeline/ipu_program.h"
#include "pipeline/pipeline_count.h"
#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tensorflow/compiler/tf2xla/type_util.h"
#include "tensorflow/compiler/tf2xla/xla_compiler.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/compiler/tf2xla/xla_resource.h"
#include "xla/calls/names.h"
#include "xla/layout_util.h"
#include "xla/lowering/custom_call.h"
#include "xla/lowering/xla_op.h"

namespace ipufeed {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::PartialTensorShape;
using tensorflow::TensorShape;
using tensorflow::XlaCompiler;
using tensorflow::XlaOpKernelContext;
using tensorflow::XlaResource;

std::string list_attribute(const char* name, const std::vector<std::int64_t>& values) {
  if (values.empty()) return absl::StrCat(name, " = array<i64>");
  return absl::StrCat(name, " = array<i64: ", absl::StrJoin(values, ", "), ">");
}

// An operand, in the layout that a call's memory has.
absl::Status add_operand(xla::XlaOp operand, std::vector<xla::XlaOp>* operands,
                         std::vector<xla::Shape>* shapes) {
  TF_ASSIGN_OR_RETURN(xla::Shape shape, operand.builder()->GetShape(operand));
  xla::LayoutUtil::SetToDefaultLayout(&shape);
  operands->push_back(operand);
  shapes->push_back(std::move(shape));
  return absl::OkStatus();
}

class PipelineXlaOp : public LoweredOp {
 public:
  explicit PipelineXlaOp(OpKernelConstruction* ctx) : LoweredOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("programs", &programs_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ipus", &ipus_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("devices", &devices_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("operands", &operands_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("operand_counts", &operand_counts_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ring_stages", &ring_stages_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ring_ipus", &ring_ipus_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ring_capacities", &capacities_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ring_credits", &credits_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("schedule", &schedule_));
  }

  absl::Status lower(XlaOpKernelContext* ctx) override { return compile(ctx); }

 private:
  // A function's result: a constant, or a place in what the call gives.
  struct Output {
    const XlaCompiler::OutputDescription* description;
    std::int64_t place;
  };
  struct Update {
    XlaResource* resource;
    const XlaCompiler::ResourceUpdate* update;
    std::int64_t place;
  };

  absl::Status compile(XlaOpKernelContext* ctx) {
    TF_RETURN_IF_ERROR(check_lists(ctx->num_inputs() - 1));
    std::vector<xla::XlaOp> operands;
    std::vector<xla::Shape> operand_shapes;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      xla::XlaOp operand;
      if (ctx->input_type(i) == tensorflow::DT_RESOURCE) {
        TF_ASSIGN_OR_RETURN(XlaResource * resource, variable(ctx, i));
        TF_RETURN_IF_ERROR(resource->Pack(&operand, ctx->builder()));
      } else {
        operand = ctx->Input(i);
      }
      TF_RETURN_IF_ERROR(add_operand(operand, &operands, &operand_shapes));
    }
    std::vector<std::int64_t> keys, places, counts, results, result_counts;
    std::vector<xla::Shape> result_shapes;
    std::vector<Output> outputs;
    std::vector<Update> updates;
    std::vector<XlaCompiler::CompilationResult> compiled(programs_.size());
    std::size_t first = 0;
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      const auto count = static_cast<std::size_t>(operand_counts_[i]);
      const std::vector<int> own(
          operands_.begin() + static_cast<std::ptrdiff_t>(first),
          operands_.begin() + static_cast<std::ptrdiff_t>(first + count));
      first += count;
      XlaCompiler::CompilationResult& result = compiled[i];
      TF_RETURN_IF_ERROR(lower(ctx, programs_[i], own, &result));
      TF_ASSIGN_OR_RETURN(const std::uint64_t key,
                          build_ipu_program(*ctx->compiler(), result));
      keys.push_back(static_cast<std::int64_t>(key));
      for (const int argument : result.input_mapping) {
        places.push_back(own[static_cast<std::size_t>(argument)]);
      }
      counts.push_back(static_cast<std::int64_t>(result.input_mapping.size()));
      std::int64_t place = static_cast<std::int64_t>(result_shapes.size());
      for (const xla::Shape& each : result.xla_output_shape.tuple_shapes()) {
        xla::Shape shape = each;
        xla::LayoutUtil::SetToDefaultLayout(&shape);
        results.push_back(static_cast<std::int64_t>(result_shapes.size()));
        result_shapes.push_back(std::move(shape));
      }
      result_counts.push_back(
          static_cast<std::int64_t>(result.xla_output_shape.tuple_shapes().size()));
      for (const auto& output : result.outputs) {
        outputs.push_back({&output, output.is_constant ? -1 : place++});
      }
      for (const auto& update : result.resource_updates) {
        TF_ASSIGN_OR_RETURN(
            XlaResource * resource,
            variable(ctx, own[static_cast<std::size_t>(update.input_index)]));
        updates.push_back({resource, &update, place++});
      }
    }
    TF_RETURN_IF_ERROR(check_updates(updates));
    result_shapes.push_back(token_shape());
    const std::string attributes = absl::StrCat(
        "{", list_attribute("keys", keys), ", ",
        list_attribute("ipus", {ipus_.begin(), ipus_.end()}), ", ",
        list_attribute("operands", places), ", ",
        list_attribute("operand_counts", counts), ", ",
        list_attribute("results", results), ", ",
        list_attribute("result_counts", result_counts), ", ",
        list_attribute("capacities", {capacities_.begin(), capacities_.end()}), ", ",
        list_attribute("credits", {credits_.begin(), credits_.end()}),
        ", ring_stages = \"", absl::StrJoin(ring_stages_, ","), "\", ",
        list_attribute("ring_ipus", {ring_ipus_.begin(), ring_ipus_.end()}),
        ", devices = ", devices_, " : i64, schedule = \"", schedule_, "\"}");
    const xla::XlaOp done = call(ctx->builder(), kPipeline, operands, operand_shapes,
                                 result_shapes, attributes);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto& [description, place] = outputs[i];
      if (description->is_constant) {
        ctx->SetConstantOutput(static_cast<int>(i), description->constant_value);
      } else {
        ctx->SetOutput(static_cast<int>(i), xla::GetTupleElement(done, place));
      }
    }
    for (const Update& each : updates) {
      TF_RETURN_IF_ERROR(each.resource->SetFromPack(
          each.update->tensor_array_gradients_accessed,
          xla::GetTupleElement(done, each.place), ctx->builder()));
    }
    ctx->SetOutput(ctx->num_outputs() - 1,
                   xla::GetTupleElement(
                       done, static_cast<std::int64_t>(result_shapes.size()) - 1));
    return absl::OkStatus();
  }

  // Whether the attributes fit each other: an op can be called by hand.
  absl::Status check_lists(int inputs) const {
    std::int64_t operands = 0;
    bool fits = operand_counts_.size() == programs_.size() &&
                ipus_.size() == programs_.size() &&
                credits_.size() == capacities_.size() &&
                ring_ipus_.size() == 2 * capacities_.size() &&
                ring_stages_.size() == 2 * capacities_.size();
    for (const int count : operand_counts_) {
      fits = fits && count >= 0;
      operands += count;
    }
    fits = fits && operands == static_cast<std::int64_t>(operands_.size());
    for (const int each : operands_) fits = fits && each >= 0 && each < inputs;
    for (const int each : ipus_) fits = fits && each >= 0 && each < devices_;
    for (const int each : ring_ipus_) fits = fits && each >= 0 && each < devices_;
    for (const int each : capacities_) fits = fits && each >= 1;
    for (const int each : credits_) fits = fits && each >= 0;
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "The lists of an IpufeedPipeline do not fit each other, or its inputs.");
  }

  static absl::StatusOr<XlaResource*> variable(XlaOpKernelContext* ctx, int input) {
    XlaResource* resource = nullptr;
    TF_RETURN_IF_ERROR(ctx->GetResourceInput(input, &resource));
    if (resource->kind() != XlaResource::kVariable || !resource->initialized()) {
      return absl::FailedPreconditionError(
          absl::StrCat("A stage of the pipeline uses the variable '", resource->name(),
                       "', which has no value yet: run its initializer first."));
    }
    return resource;
  }

  // A variable is on one IPU: two that assign to it would not see each other's values.
  static absl::Status check_updates(const std::vector<Update>& updates) {
    for (std::size_t i = 0; i < updates.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (updates[i].resource != updates[k].resource) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            "Stages on two IPUs assign to the variable '", updates[i].resource->name(),
            "'. Map them onto one IPU with device_mapping."));
      }
    }
    return absl::OkStatus();
  }

  static absl::Status lower(XlaOpKernelContext* ctx,
                            const tensorflow::NameAttrList& program,
                            const std::vector<int>& inputs,
                            XlaCompiler::CompilationResult* result) {
    std::vector<XlaCompiler::Argument> arguments;
    for (const int input : inputs) {
      XlaCompiler::Argument& argument = arguments.emplace_back();
      if (ctx->input_type(input) == tensorflow::DT_RESOURCE) {
        TF_ASSIGN_OR_RETURN(XlaResource * resource, variable(ctx, input));
        argument.kind = XlaCompiler::Argument::kResource;
        argument.resource_kind = resource->kind();
        argument.initialized = true;
        argument.type = resource->type();
        argument.shape = resource->shape();
        argument.name = absl::StrCat("variable", arguments.size());
        continue;
      }
      argument.kind = XlaCompiler::Argument::kParameter;
      argument.type = ctx->input_type(input);
      TF_ASSIGN_OR_RETURN(const xla::Shape shape, ctx->InputXlaShape(input));
      TensorShape dimensions;
      TF_RETURN_IF_ERROR(tensorflow::XLAShapeToTensorShape(shape, &dimensions));
      argument.shape = dimensions;
      argument.name = absl::StrCat("argument", arguments.size());
    }
    XlaCompiler::CompileOptions options;
    options.is_entry_computation = true;
    options.always_return_tuple = true;
    return ctx->compiler()->CompileFunction(options, program, arguments, result);
  }

  std::vector<tensorflow::NameAttrList> programs_;
  std::vector<int> ipus_;
  std::int64_t devices_ = 0;
  std::vector<int> operands_;
  std::vector<int> operand_counts_;
  std::vector<int> capacities_;  // of the rings, as the next three
  std::vector<int> credits_;
  std::vector<std::string> ring_stages_;
  std::vector<int> ring_ipus_;
  std::string schedule_;
};

// A call whose operands are the op's inputs and whose results are its outputs.
class CallXlaOp : public LoweredOp {
 public:
  CallXlaOp(OpKernelConstruction* ctx, const char* target)
      : LoweredOp(ctx), target_(target) {}

  absl::Status lower(XlaOpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {ctx->num_inputs() - 1}));  // the token
    std::vector<xla::XlaOp> operands;
    std::vector<xla::Shape> operand_shapes;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      TF_RETURN_IF_ERROR(add_operand(ctx->Input(i), &operands, &operand_shapes));
    }
    std::vector<xla::Shape> results = results_;
    results.push_back(token_shape());
    const xla::XlaOp done =
        call(ctx->builder(), target_, operands, operand_shapes, results, attributes_);
    for (std::size_t i = 0; i < results.size(); ++i) {
      ctx->SetOutput(static_cast<int>(i),
                     xla::GetTupleElement(done, static_cast<std::int64_t>(i)));
    }
    return absl::OkStatus();
  }

 protected:
  std::vector<xla::Shape> results_;  // without the token
  std::string attributes_;

 private:
  const char* const target_;
};

class SendXlaOp : public CallXlaOp {
 public:
  explicit SendXlaOp(OpKernelConstruction* ctx) : CallXlaOp(ctx, kSend) {
    std::int64_t ring = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ring", &ring));
    attributes_ = absl::StrCat("{ring = ", ring, " : i64}");
  }
};

class ReceiveXlaOp : public CallXlaOp {
 public:
  explicit ReceiveXlaOp(OpKernelConstruction* ctx) : CallXlaOp(ctx, kReceive) {
    std::int64_t ring = 0;
    std::vector<DataType> dtypes;
    std::vector<PartialTensorShape> shapes;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ring", &ring));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtypes", &dtypes));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes));
    attributes_ = absl::StrCat("{ring = ", ring, " : i64}");
    OP_REQUIRES_OK(ctx, check_signature(dtypes.size(), shapes.size()));
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      TensorShape shape;
      OP_REQUIRES(ctx, shapes[i].AsTensorShape(&shape),
                  absl::InvalidArgumentError(absl::StrCat(
                      "What crosses between the stages of a pipeline must have fully "
                      "defined shapes, got ",
                      shapes[i].DebugString(), ".")));
      xla::PrimitiveType type;
      OP_REQUIRES_OK(ctx, tensorflow::DataTypeToPrimitiveType(dtypes[i], &type));
      results_.push_back(tensorflow::TensorShapeToXLAShape(type, shape));
    }
  }
};

class StageEntersXlaOp : public CallXlaOp {
 public:
  explicit StageEntersXlaOp(OpKernelConstruction* ctx) : CallXlaOp(ctx, kEnters) {
    std::string label;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("label", &label));
    attributes_ = absl::StrCat("{label = \"", label, "\"}");
  }
};

class StageEndsXlaOp : public CallXlaOp {
 public:
  explicit StageEndsXlaOp(OpKernelConstruction* ctx) : CallXlaOp(ctx, kEnds) {
    std::string label;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("label", &label));
    attributes_ = absl::StrCat("{label = \"", label, "\"}");
  }
};

// The inputs stay where they are.
class StageBeginsXlaOp : public LoweredOp {
 public:
  using LoweredOp::LoweredOp;

  absl::Status lower(XlaOpKernelContext* ctx) override {
    const int inputs = ctx->num_inputs() - 1;
    TF_RETURN_IF_ERROR(check_scalars(ctx, {inputs}));
    std::vector<xla::XlaOp> operands;
    std::vector<xla::Shape> shapes;
    for (int i = 0; i <= inputs; ++i) {
      TF_RETURN_IF_ERROR(add_operand(ctx->Input(i), &operands, &shapes));
    }
    std::vector<xla::Shape> results(shapes.begin(), shapes.begin() + inputs);
    results.push_back(xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::S32, {2}));
    results.push_back(token_shape());
    const xla::XlaOp done =
        call(ctx->builder(), kBegins, operands, shapes, results, "", inputs);
    for (int i = 0; i < inputs + 2; ++i) {
      ctx->SetOutput(i, xla::GetTupleElement(done, i));
    }
    return absl::OkStatus();
  }
};

class PipelineCountXlaOp : public LoweredOp {
 public:
  explicit PipelineCountXlaOp(OpKernelConstruction* ctx) : LoweredOp(ctx) {
    std::int64_t multiple = 1;
    std::int64_t least = 0;
    std::int64_t most = 1;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("multiple", &multiple));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("least", &least));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("most", &most));
    attributes_ = absl::StrCat("{multiple = ", multiple, " : i64, least = ", least,
                               " : i64, most = ", most, " : i64}");
  }

  absl::Status lower(XlaOpKernelContext* ctx) override {
    const auto scalar = [](xla::PrimitiveType type) {
      return xla::ShapeUtil::MakeShapeWithDescendingLayout(type, {});
    };
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0}));
    const xla::XlaOp done = call(ctx->builder(), kCount, {ctx->Input(0)},
                                 {scalar(xla::S64)}, {scalar(xla::S32)}, attributes_);
    ctx->SetOutput(0, xla::GetTupleElement(done, 0));
    return absl::OkStatus();
  }

 private:
  std::string attributes_;
};

// A call that gives its one operand back.
class SameXlaOp : public LoweredOp {
 public:
  SameXlaOp(OpKernelConstruction* ctx, const char* target)
      : LoweredOp(ctx), target_(target) {}

  absl::Status lower(XlaOpKernelContext* ctx) override {
    std::vector<xla::XlaOp> operands;
    std::vector<xla::Shape> shapes;
    TF_RETURN_IF_ERROR(add_operand(ctx->Input(0), &operands, &shapes));
    const xla::XlaOp done =
        call(ctx->builder(), target_, operands, shapes, shapes, attributes_);
    ctx->SetOutput(0, xla::GetTupleElement(done, 0));
    return absl::OkStatus();
  }

 protected:
  std::string attributes_;

 private:
  const char* const target_;
};

class WaitXlaOp : public SameXlaOp {
 public:
  explicit WaitXlaOp(OpKernelConstruction* ctx) : SameXlaOp(ctx, kWait) {
    std::int64_t nanoseconds = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("nanoseconds", &nanoseconds));
    attributes_ = absl::StrCat("{nanoseconds = ", nanoseconds, " : i64}");
  }
};

class RemoteXlaOp : public SameXlaOp {
 public:
  explicit RemoteXlaOp(OpKernelConstruction* ctx) : SameXlaOp(ctx, kRemote) {
    std::int64_t number = 0;
    bool stores = false;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("number", &number));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("stores", &stores));
    attributes_ = absl::StrCat("{number = ", number,
                               " : i64, stores = ", stores ? 1 : 0, " : i64}");
  }
};

REGISTER_XLA_OP(Name("IpufeedWait"), WaitXlaOp);
REGISTER_XLA_OP(Name("IpufeedRemote"), RemoteXlaOp);
REGISTER_XLA_OP(Name("IpufeedPipelineCount"), PipelineCountXlaOp);
REGISTER_XLA_OP(Name("IpufeedPipeline").AllowResourceTypes(), PipelineXlaOp);
REGISTER_XLA_OP(Name("IpufeedSend"), SendXlaOp);
REGISTER_XLA_OP(Name("IpufeedReceive"), ReceiveXlaOp);
REGISTER_XLA_OP(Name("IpufeedStageEnters"), StageEntersXlaOp);
REGISTER_XLA_OP(Name("IpufeedStageBegins"), StageBeginsXlaOp);
REGISTER_XLA_OP(Name("IpufeedStageEnds"), StageEndsXlaOp);

}  // namespace
}  // namespace ipufeed
