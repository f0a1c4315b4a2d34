// The common part of datasets that pass their input's elements on unchanged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/guard.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/model.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {

// Makes a dataset in its op; an exception becomes the op's error.
template <class Make>
void make_guarded(tensorflow::OpKernelContext* ctx, Make&& make) {
  const absl::Status made =
      guarded(ctx->op_kernel().type_string().c_str(), std::forward<Make>(make));
  if (!made.ok()) ctx->SetStatus(made);
}

// Types, shapes, number and state are those of the input. What is left to do: how an
// iterator is made, and how the dataset is written into a graph.
class PassingDataset : public tensorflow::data::DatasetBase {
 public:
  ~PassingDataset() override { input_->Unref(); }

  const tensorflow::DataTypeVector& output_dtypes() const override {
    return input_->output_dtypes();
  }
  const std::vector<tensorflow::PartialTensorShape>& output_shapes() const override {
    return input_->output_shapes();
  }
  std::string DebugString() const override { return type_string(); }
  std::int64_t CardinalityInternal(
      tensorflow::data::CardinalityOptions options) const override {
    return input_->Cardinality(options);
  }
  absl::Status InputDatasets(
      std::vector<const tensorflow::data::DatasetBase*>* inputs) const override {
    inputs->push_back(input_);
    return absl::OkStatus();
  }
  absl::Status CheckExternalState() const override {
    return input_->CheckExternalState();
  }

  const tensorflow::data::DatasetBase* input() const { return input_; }

 protected:
  PassingDataset(tensorflow::OpKernelContext* ctx,
                 const tensorflow::data::DatasetBase* input)
      : DatasetBase(tensorflow::data::DatasetContext(ctx)), input_(input) {
    input_->Ref();
  }

  // An iterator whose name ends as the dataset's op is called, without "Dataset": so
  // tf.data's model calls it, where the probe's readings are looked for.
  template <class Iterator, class Dataset>
  static std::unique_ptr<tensorflow::data::IteratorBase> make_iterator(
      const Dataset* dataset, const std::string& prefix) {
    return std::make_unique<Iterator>(typename Iterator::Params{
        dataset, absl::StrCat(prefix, "::",
                              absl::StripSuffix(dataset->type_string(), "Dataset"))});
  }

 private:
  const tensorflow::data::DatasetBase* const input_;
};

// One element in, one out. What is left to do: GetNextInternal, with input().
template <class Dataset>
class PassingIterator : public tensorflow::data::DatasetIterator<Dataset> {
 public:
  using Params = typename tensorflow::data::DatasetIterator<Dataset>::Params;
  using tensorflow::data::DatasetIterator<Dataset>::DatasetIterator;

  bool SymbolicCheckpointCompatible() const override { return true; }

  absl::Status Initialize(tensorflow::data::IteratorContext* ctx) override {
    return this->dataset()->input()->MakeIterator(ctx, this, this->prefix(), &input_);
  }

 protected:
  tensorflow::data::IteratorBase* input() const { return input_.get(); }

  std::shared_ptr<tensorflow::data::model::Node> CreateNode(
      tensorflow::data::IteratorContext* ctx,
      tensorflow::data::model::Node::Args args) const override {
    return tensorflow::data::model::MakeKnownRatioNode(std::move(args), /*ratio=*/1);
  }
  absl::Status SaveInternal(tensorflow::data::SerializationContext* ctx,
                            tensorflow::data::IteratorStateWriter* writer) override {
    return this->SaveInput(ctx, writer, input_);
  }
  absl::Status RestoreInternal(tensorflow::data::IteratorContext* ctx,
                               tensorflow::data::IteratorStateReader* reader) override {
    return this->RestoreInput(ctx, reader, input_);
  }

 private:
  std::unique_ptr<tensorflow::data::IteratorBase> input_;
};

}  // namespace ipufeed
