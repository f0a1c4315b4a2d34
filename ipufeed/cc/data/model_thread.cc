#include "data/model_thread.h"

#include <utility>

#include "tensorflow/core/platform/mutex.h"

namespace ipufeed {
namespace {

using tensorflow::data::model::Model;

// Both members are private, and no public function of Model notifies. An explicit
// instantiation may name private members; a friend function passes them on.
template <typename Tag, auto kMember>
struct Grants {
  friend auto member_of(Tag) { return kMember; }
};

struct ModelMutex {
  friend auto member_of(ModelMutex);
};
template struct Grants<ModelMutex, &Model::mu_>;

struct ModelCondition {
  friend auto member_of(ModelCondition);
};
template struct Grants<ModelCondition, &Model::optimize_cond_var_>;

class WokenThread : public tensorflow::Thread {
 public:
  WokenThread(std::unique_ptr<tensorflow::Thread> thread,
              std::function<std::shared_ptr<Model>()> model)
      : thread_(std::move(thread)), model_(std::move(model)) {}

  ~WokenThread() override {
    if (const auto model = model_()) {
      // The thread checks for a cancellation and begins to wait under this lock.
      tensorflow::mutex_lock lock((*model).*member_of(ModelMutex()));
      ((*model).*member_of(ModelCondition())).notify_all();
    }
    thread_.reset();
  }

 private:
  std::unique_ptr<tensorflow::Thread> thread_;
  const std::function<std::shared_ptr<Model>()> model_;
};

}  // namespace

std::unique_ptr<tensorflow::Thread> woken_at_end(
    std::unique_ptr<tensorflow::Thread> thread,
    std::function<std::shared_ptr<Model>()> model) {
  return std::make_unique<WokenThread>(std::move(thread), std::move(model));
}

}  // namespace ipufeed
