#include "measure/stage_probe.h"

#include <algorithm>
#include <unordered_map>

#include "core/mutex.h"
#include "core/wait.h"
#include "tensorflow/core/framework/model.pb.h"

namespace ipufeed {
namespace {

using tensorflow::data::model::ModelProto;
using ModelNode = tensorflow::data::model::Node;

struct Groups {
  Mutex mutex;
  std::int64_t last IPUFEED_GUARDED_BY(mutex) = 0;
  std::unordered_map<std::int64_t, std::vector<std::shared_ptr<ProbeCounters>>>
      by_number IPUFEED_GUARDED_BY(mutex);

  static Groups& get() {
    static auto* groups = new Groups;  // never destroyed: see feeder.cc
    return *groups;
  }

  std::shared_ptr<ProbeCounters> find(std::int64_t number, std::int64_t slot) {
    MutexLock lock(mutex);
    const auto found = by_number.find(number);
    if (found == by_number.end()) return nullptr;
    const auto& slots = found->second;
    if (slot < 0 || slot >= static_cast<std::int64_t>(slots.size())) return nullptr;
    return slots[static_cast<std::size_t>(slot)];
  }
};

void add_parameters(const ModelNode& node, ProbeReading* sum) {
  ModelProto::Node proto;
  if (!node.ToProto(&proto).ok()) return;
  for (const auto& parameter : proto.parameters()) {
    const auto value = static_cast<std::int64_t>(parameter.state_value());
    if (parameter.name() == "parallelism") sum->parallelism = value;
    if (parameter.name() == "buffer_size") sum->buffer_elements = value;
    if (parameter.tunable()) sum->tuned = 1;
  }
}

}  // namespace

ProbeCounters::Live* ProbeCounters::begin(NodePtr probe) {
  MutexLock lock(mutex_);
  live_.push_back(std::make_unique<Live>());
  live_.back()->probe = std::move(probe);
  return live_.back().get();
}

void ProbeCounters::end(Live* live) {
  MutexLock lock(mutex_);
  add_model(*live, &past_);
  live_.erase(std::remove_if(live_.begin(), live_.end(),
                             [live](const auto& one) { return one.get() == live; }),
              live_.end());
}

void ProbeCounters::enter(std::int64_t start_ns) {
  MutexLock lock(mutex_);
  ++calls_;
  started_ns_ += start_ns;
}

void ProbeCounters::leave(std::int64_t start_ns, std::int64_t end_ns,
                          std::int64_t cpu_ns, bool gave) {
  MutexLock lock(mutex_);
  --calls_;
  started_ns_ -= start_ns;
  past_.wall_ns += end_ns - start_ns;
  past_.cpu_ns += cpu_ns;
  past_.elements += gave ? 1 : 0;
}

ProbeReading ProbeCounters::read() {
  MutexLock lock(mutex_);
  ProbeReading sum = past_;
  for (const auto& live : live_) add_model(*live, &sum);
  past_.buffered_bytes = sum.buffered_bytes;  // the most so far
  sum.wall_ns += calls_ * now_ns() - started_ns_;
  return sum;
}

void ProbeCounters::add_model(const Live& live, ProbeReading* sum) {
  if (live.probe == nullptr) return;
  for (const auto& step : live.probe->inputs()) {
    sum->model_ns += step->processing_time();
    sum->is_async = step->IsAsync() ? 1 : 0;
    sum->buffered_bytes = std::max(sum->buffered_bytes, step->buffered_bytes());
    add_parameters(*step, sum);
  }
}

std::shared_ptr<ProbeCounters> probe_counters(std::int64_t group, std::int64_t slot) {
  auto found = Groups::get().find(group, slot);
  return found != nullptr ? found : std::make_shared<ProbeCounters>();
}

std::int64_t new_probes(std::int64_t slots) {
  auto& groups = Groups::get();
  MutexLock lock(groups.mutex);
  auto& group = groups.by_number[++groups.last];
  for (std::int64_t i = 0; i < slots; ++i) {
    group.push_back(std::make_shared<ProbeCounters>());
  }
  return groups.last;
}

void forget_probes(std::int64_t group) {
  auto& groups = Groups::get();
  MutexLock lock(groups.mutex);
  groups.by_number.erase(group);
}

std::shared_ptr<ProbeCounters> find_probe(std::int64_t group, std::int64_t slot) {
  return Groups::get().find(group, slot);
}

}  // namespace ipufeed
