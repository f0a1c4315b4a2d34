// A kernel for TensorFlow's XlaClusterOutput, the mark that xla.compile puts at a
// program's results. TensorFlow replaces the mark when it compiles the program; a
// program that is not compiled, since it holds ops for the host, keeps it, and there it
// passes on what it gets.

#include "base/kernels.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {
namespace {

class ClusterOutputOp : public Kernel {
 public:
  using Kernel::Kernel;
  absl::Status run(tensorflow::OpKernelContext* ctx) override {
    ctx->set_output(0, ctx->input(0));
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("XlaClusterOutput").Device(tensorflow::DEVICE_CPU),
                        ClusterOutputOp);

}  // namespace
}  // namespace ipufeed
