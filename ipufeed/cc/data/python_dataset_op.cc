#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/python_calls.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "core/spare_memory.h"
#include "data/passing_dataset.h"
#include "data/python_dataset.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"

namespace ipufeed {
namespace {

using tensorflow::DataTypeVector;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using namespace tensorflow::data;  // NOLINT: the base classes' types, a dozen of them

// The calls of Python, and whether further ones are refused.
//
// [2] A call counts itself, then reads stopped(); stop() sets it, then reads the count.
// Both in one order of all threads: the call sees the stop, or the stop the call.
class ReadCalls {
 public:
  bool begin() {
    running_.fetch_add(1, std::memory_order_seq_cst);            // [2]
    if (!stopped_.load(std::memory_order_seq_cst)) return true;  // [2]
    end();
    return false;
  }
  void end() { running_.fetch_sub(1, std::memory_order_release); }

  bool stop(std::int64_t timeout_ns) {
    stopped_.store(true, std::memory_order_seq_cst);  // [2]
    const std::int64_t limit = now_ns() + timeout_ns;
    while (running_.load(std::memory_order_seq_cst) > 0) {  // [2]
      if (now_ns() >= limit) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
  }
  void forget() { running_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> running_{0};
  std::atomic<bool> stopped_{false};
};

ReadCalls read_calls;
std::atomic<OnRead> on_read{nullptr};
std::atomic<std::int64_t> next_pass{0};

REGISTER_OP("IpufeedPythonDataset")
    .Input("source: int64")
    .Output("handle: variant")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("metadata: string = ''")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle source;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &source));
      return tensorflow::shape_inference::ScalarShape(c);
    })
    .Doc(R"doc(
The elements that Python's iterator gives, in arrays of these types and shapes.

source: Python's number of what makes the iterators, one for each pass.
)doc");

// A large component in the process's cache of blocks: in new memory a copy would take
// several times as long, since the kernel maps it page by page.
class SpareBuffer : public tensorflow::TensorBuffer {
 public:
  explicit SpareBuffer(std::size_t bytes)
      : SpareBuffer(SpareMemory::get().take(bytes), bytes) {}
  ~SpareBuffer() override { SpareMemory::get().give(std::move(memory_)); }

  std::size_t size() const override { return bytes_; }
  tensorflow::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(
      tensorflow::AllocationDescription* description) const override {
    description->set_requested_bytes(static_cast<std::int64_t>(bytes_));
    description->set_allocator_name("ipufeed");
  }

 private:
  SpareBuffer(SpareMemory::Bytes memory, std::size_t bytes)
      : TensorBuffer(memory.get()), memory_(std::move(memory)), bytes_(bytes) {}

  SpareMemory::Bytes memory_;
  const std::size_t bytes_;
};

class PythonDataset : public DatasetBase {
 public:
  PythonDataset(OpKernelContext* ctx, std::int64_t source, DataTypeVector types,
                std::vector<TensorShape> shapes)
      : DatasetBase(DatasetContext(ctx)),
        source_(source),
        types_(std::move(types)),
        shapes_(std::move(shapes)),
        partial_shapes_(shapes_.begin(), shapes_.end()) {}

  const DataTypeVector& output_dtypes() const override { return types_; }
  const std::vector<PartialTensorShape>& output_shapes() const override {
    return partial_shapes_;
  }
  std::string DebugString() const override { return type_string(); }
  std::int64_t CardinalityInternal(CardinalityOptions options) const override {
    return kUnknownCardinality;
  }
  absl::Status InputDatasets(std::vector<const DatasetBase*>* inputs) const override {
    return absl::OkStatus();
  }
  absl::Status CheckExternalState() const override {
    return absl::FailedPreconditionError("A dataset of Python's elements has state.");
  }
  std::unique_ptr<IteratorBase> MakeIteratorInternal(
      const std::string& prefix) const override {
    return std::make_unique<Iterator>(
        Iterator::Params{this, absl::StrCat(prefix, "::IpufeedPython")});
  }

 protected:
  absl::Status AsGraphDefInternal(SerializationContext* ctx, DatasetGraphDefBuilder* b,
                                  tensorflow::Node** output) const override {
    tensorflow::Node* source = nullptr;
    TF_RETURN_IF_ERROR(b->AddScalar(source_, &source));
    return b->AddDataset(this, {source}, output);
  }

 private:
  class Iterator : public tensorflow::data::DatasetIterator<PythonDataset> {
   public:
    explicit Iterator(const Params& params)
        : tensorflow::data::DatasetIterator<PythonDataset>(params),
          pass_(next_pass.fetch_add(1, std::memory_order_relaxed)),
          data_(params.dataset->shapes_.size()) {}

    ~Iterator() override {
      if (!opened_) return;
      off_main([this] {
        const KeptError kept;
        call(ReadCall::kClose, nullptr, {});
      });
    }

    absl::Status GetNextInternal(IteratorContext* ctx, std::vector<Tensor>* out,
                                 bool* end) override {
      MutexLock lock(mutex_);
      *end = ended_;
      if (ended_) return absl::OkStatus();
      opened_ = true;
      char message[4096] = "";
      int answer = kUnknown;
      const void** const data = data_.data();
      off_main([&] { answer = call(ReadCall::kNext, data, message); });
      *end = ended_ = answer == ReadCall::kEnd;
      if (ended_) return absl::OkStatus();
      if (answer == ReadCall::kElement) return copy(ctx, data_, out);
      if (answer <= 0) answer = kUnknown;
      return absl::Status(static_cast<absl::StatusCode>(answer), message);
    }

   protected:
    std::shared_ptr<model::Node> CreateNode(IteratorContext* ctx,
                                            model::Node::Args args) const override {
      return model::MakeSourceNode(std::move(args));
    }
    absl::Status SaveInternal(SerializationContext* ctx,
                              IteratorStateWriter* writer) override {
      return absl::UnimplementedError(kNoPlace);
    }
    absl::Status RestoreInternal(IteratorContext* ctx,
                                 IteratorStateReader* reader) override {
      return absl::UnimplementedError(kNoPlace);
    }

   private:
    static constexpr int kUnknown = static_cast<int>(absl::StatusCode::kUnknown);
    static constexpr int kCancelled = static_cast<int>(absl::StatusCode::kCancelled);
    static constexpr std::string_view kNoPlace =
        "the place of an iterator of Python is not known, and cannot be saved.";

    int call(ReadCall::Action action, const void** data, absl::Span<char> message) {
      if (!read_calls.begin()) return kCancelled;
      const auto end = absl::MakeCleanup([] { read_calls.end(); });
      // Python makes a state for the thread here and deletes it at the end, which is
      // most of the time of a call. Not to keep it is on purpose: it could only be
      // deleted at the thread's end, with Python's lock, whose holder may wait for that
      // end.
      const OnRead function = on_read.load(std::memory_order_acquire);  // [1]
      if (function == nullptr) return kUnknown;
      ReadCall call{dataset()->source_,
                    pass_,
                    data,
                    message.data(),
                    static_cast<std::int32_t>(dataset()->types_.size()),
                    static_cast<std::int32_t>(message.size())};
      return function(action, &call);
    }

    // Without Python's lock.
    absl::Status copy(IteratorContext* ctx, const std::vector<const void*>& data,
                      std::vector<Tensor>* out) {
      return guarded("the copy of an element", [&] {
        out->reserve(data.size());
        for (std::size_t i = 0; i < data.size(); ++i) {
          out->push_back(room(ctx, dataset()->types_[i], dataset()->shapes_[i]));
          const std::size_t bytes = out->back().TotalBytes();
          if (bytes > 0) std::memcpy(out->back().data(), data[i], bytes);
        }
      });
    }

    static Tensor room(IteratorContext* ctx, tensorflow::DataType type,
                       const TensorShape& shape) {
      const std::size_t bytes =
          static_cast<std::size_t>(shape.num_elements()) *
          static_cast<std::size_t>(tensorflow::DataTypeSize(type));
      if (bytes >= SpareMemory::kLarge) {
        const tensorflow::core::RefCountPtr<SpareBuffer> buffer(new SpareBuffer(bytes));
        return Tensor(type, shape, buffer.get());  // which takes a reference
      }
      Tensor tensor(ctx->allocator({}), type, shape);
      if (!tensor.IsInitialized()) throw std::bad_alloc();
      return tensor;
    }

    const std::int64_t pass_;
    Mutex mutex_;
    std::vector<const void*> data_ IPUFEED_GUARDED_BY(mutex_);
    bool opened_ IPUFEED_GUARDED_BY(mutex_) = false;
    bool ended_ IPUFEED_GUARDED_BY(mutex_) = false;
  };

  const std::int64_t source_;
  const DataTypeVector types_;
  const std::vector<TensorShape> shapes_;
  const std::vector<PartialTensorShape> partial_shapes_;
};

class PythonDatasetOp : public DatasetOpKernel {
 public:
  explicit PythonDatasetOp(tensorflow::OpKernelConstruction* ctx)
      : DatasetOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_types", &types_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_shapes", &partial_shapes_));
    OP_REQUIRES(ctx, types_.size() == partial_shapes_.size(),
                absl::InvalidArgumentError(absl::StrCat(
                    "`output_types` and `output_shapes` must be of one length, got ",
                    types_.size(), " and ", partial_shapes_.size(), ".")));
    for (std::size_t i = 0; i < types_.size(); ++i) {
      OP_REQUIRES(ctx,
                  tensorflow::DataTypeCanUseMemcpy(types_[i]) &&
                      partial_shapes_[i].AsTensorShape(&shapes_.emplace_back()),
                  absl::InvalidArgumentError(absl::StrCat(
                      "component ", i, " must be numbers of a known shape, got ",
                      tensorflow::DataTypeString(types_[i]), " ",
                      partial_shapes_[i].DebugString(), ".")));
    }
  }

 protected:
  void MakeDataset(OpKernelContext* ctx, DatasetBase** output) override {
    const Tensor* source = nullptr;
    OP_REQUIRES_OK(ctx, ctx->input("source", &source));
    OP_REQUIRES(
        ctx, source->dims() == 0,
        absl::InvalidArgumentError(absl::StrCat("`source` must be a scalar, got ",
                                                source->dims(), " dimensions.")));
    make_guarded(ctx, [&] {
      *output =
          new PythonDataset(ctx, source->scalar<std::int64_t>()(), types_, shapes_);
    });
  }

 private:
  DataTypeVector types_;
  std::vector<PartialTensorShape> partial_shapes_;
  std::vector<TensorShape> shapes_;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedPythonDataset").Device(tensorflow::DEVICE_CPU),
                        PythonDatasetOp);

}  // namespace

// [1] What Python prepared before is visible to its function.
void set_on_read(OnRead function) {
  on_read.store(function, std::memory_order_release);  // [1]
}

bool stop_reading(std::int64_t timeout_ns) { return read_calls.stop(timeout_ns); }

void forget_reading_of_parent() { read_calls.forget(); }

}  // namespace ipufeed
