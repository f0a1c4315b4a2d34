// A dataset that passes its input on and counts the elements, for readers outside the
// process.
//
// A worker of tf.data service does not report what it produced. The benchmark puts this
// at the end of the pipeline that it sends to its own workers, and maps the number into
// each of them: it can be read at any time, and after the worker was killed.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/count_elements.h"
#include "data/passing_dataset.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using namespace tensorflow::data;  // NOLINT: the base classes' types, a dozen of them

REGISTER_OP("IpufeedCountElementsDataset")
    .Input("input_dataset: variant")
    .Output("handle: variant")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("metadata: string = ''")
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Passes on the elements of a dataset and adds their number to the counter that
ipufeed_count_elements_at named in the process that iterates.
)doc");

using Counter = std::atomic<std::int64_t>;
static_assert(sizeof(Counter) == sizeof(std::int64_t) && Counter::is_always_lock_free,
              "another process reads it as a plain number");

// No other order depends on the number or on where it is: all relaxed, but for the
// pointer, whose target must be seen as it was mapped: release in set, acquire in add
// [1].
std::atomic<Counter*> counter{nullptr};

void add_one() {
  Counter* where = counter.load(std::memory_order_acquire);  // [1]
  if (where != nullptr) where->fetch_add(1, std::memory_order_relaxed);
}

class CountElementsDataset : public PassingDataset {
 public:
  CountElementsDataset(OpKernelContext* ctx, const DatasetBase* input)
      : PassingDataset(ctx, input) {}

  std::unique_ptr<IteratorBase> MakeIteratorInternal(
      const std::string& prefix) const override {
    return make_iterator<Iterator>(this, prefix);
  }

 protected:
  absl::Status AsGraphDefInternal(SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                  tensorflow::Node** output) const override {
    tensorflow::Node* node = nullptr;
    TF_RETURN_IF_ERROR(b->AddInputDataset(ctx, input(), &node));
    return b->AddDataset(this, {node}, output);
  }

 private:
  class Iterator : public PassingIterator<CountElementsDataset> {
   public:
    using PassingIterator<CountElementsDataset>::PassingIterator;

    absl::Status GetNextInternal(IteratorContext* ctx, std::vector<Tensor>* out,
                                 bool* end) override {
      TF_RETURN_IF_ERROR(input()->GetNext(ctx, out, end));
      if (!*end) add_one();
      return absl::OkStatus();
    }
  };
};

class CountElementsDatasetOp : public UnaryDatasetOpKernel {
 public:
  using UnaryDatasetOpKernel::UnaryDatasetOpKernel;

 protected:
  void MakeDataset(OpKernelContext* ctx, DatasetBase* input,
                   DatasetBase** output) override {
    make_guarded(ctx, [&] { *output = new CountElementsDataset(ctx, input); });
  }
};

REGISTER_KERNEL_BUILDER(
    Name("IpufeedCountElementsDataset").Device(tensorflow::DEVICE_CPU),
    CountElementsDatasetOp);

}  // namespace

void count_elements_at(void* address) {
  counter.store(static_cast<Counter*>(address), std::memory_order_release);  // [1]
}

}  // namespace ipufeed
