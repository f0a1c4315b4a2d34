#include "core/seeds.h"

#include <random>

#include "core/mutex.h"

namespace ipufeed {
namespace {

std::uint64_t entropy() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

struct DeviceSeed {
  bool known = false;     // whether the seed below is set
  bool is_reset = false;  // and by reset_ipu_seed
  bool identical = false;
  std::uint64_t seed = 0;
  std::uint64_t runs = 0;  // since it was set
};

struct DeviceSeeds {
  Mutex mutex;
  bool synthetic IPUFEED_GUARDED_BY(mutex) = false;
  std::map<int, DeviceSeed> devices IPUFEED_GUARDED_BY(mutex);

  // Never destroyed: programs may end after the destruction of static objects.
  static DeviceSeeds& get() {
    static auto* const seeds = new DeviceSeeds;
    return *seeds;
  }
};

}  // namespace

void set_device_seed(int ordinal, std::int64_t seed, bool identical_replicas) {
  auto& seeds = DeviceSeeds::get();
  MutexLock lock(seeds.mutex);
  seeds.devices[ordinal] = {true, true, identical_replicas,
                            static_cast<std::uint64_t>(seed), 0};
}

void forget_device_seeds() {
  auto& seeds = DeviceSeeds::get();
  MutexLock lock(seeds.mutex);
  seeds.devices.clear();
}

void set_synthetic_seed(bool synthetic) {
  auto& seeds = DeviceSeeds::get();
  MutexLock lock(seeds.mutex);
  seeds.synthetic = synthetic;
}

void RunSeeds::begin(int ordinal) {
  MutexLock lock(mutex_);
  begin_locked(ordinal);
}

void RunSeeds::begin_locked(int ordinal) {
  if (begun_) return;
  begun_ = true;
  auto& seeds = DeviceSeeds::get();
  MutexLock lock(seeds.mutex);
  DeviceSeed& device = seeds.devices[ordinal];
  identical_ = device.identical;
  if (seeds.synthetic) {
    is_reset_ = true;
    key_ = mix(mix(0) ^ 1);
    return;
  }
  if (!device.known) {
    device.known = true;
    device.seed = entropy();
  }
  is_reset_ = device.is_reset;
  key_ = mix(mix(device.seed) ^ ++device.runs);
}

std::uint64_t RunSeeds::number_of(int replica) const {
  return identical_ ? 0 : static_cast<std::uint64_t>(replica) + 1;
}

std::uint64_t RunSeeds::draw_locked(const Place& place) {
  Executions& executions = executions_[{place.replica, place.op}];
  if (executions.mini_batch != place.mini_batch) executions = {place.mini_batch, 0};
  const std::uint64_t execution =
      (static_cast<std::uint64_t>(place.mini_batch) << 32) + executions.count++;
  std::uint64_t key = mix(key_ ^ number_of(place.replica));
  key = mix(key ^ static_cast<std::uint64_t>(place.op));
  return mix(key ^ execution);
}

std::uint64_t RunSeeds::draw(int ordinal, const Place& place) {
  MutexLock lock(mutex_);
  begin_locked(ordinal);
  return draw_locked(place);
}

std::uint64_t RunSeeds::draw_or_keep(int ordinal, const Place& place,
                                     std::uint64_t own) {
  MutexLock lock(mutex_);
  begin_locked(ordinal);
  if (is_reset_) return draw_locked(place);
  return place.replica == 0 ? own : mix(own ^ number_of(place.replica));
}

std::int64_t RunSeeds::mini_batches(int replica, std::uint64_t pipeline) {
  MutexLock lock(mutex_);
  return mini_batches_[{replica, pipeline}];
}

void RunSeeds::add_mini_batches(int replica, std::uint64_t pipeline,
                                std::int64_t count) {
  MutexLock lock(mutex_);
  mini_batches_[{replica, pipeline}] += count;
}

}  // namespace ipufeed
