#include "random/random_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/random/philox_random.h"
#include "tensorflow/core/lib/random/random_distributions.h"

namespace ipufeed {
namespace {

using tensorflow::random::PhiloxRandom;
using Adapter = tensorflow::random::SingleSampleAdapter<PhiloxRandom>;

// As TensorFlow's stateless ops scramble a seed.
PhiloxRandom generator_of(const std::int32_t* seed) {
  const auto first = static_cast<std::uint64_t>(std::int64_t{seed[0]});
  const auto second = static_cast<std::uint64_t>(std::int64_t{seed[1]});
  PhiloxRandom::Key key;
  key[0] = 0x3ec8f720;
  key[1] = 0x02461e29;
  PhiloxRandom::ResultType counter;
  counter[0] = static_cast<std::uint32_t>(first);
  counter[1] = static_cast<std::uint32_t>(first >> 32);
  counter[2] = static_cast<std::uint32_t>(second);
  counter[3] = static_cast<std::uint32_t>(second >> 32);
  const auto scrambled = PhiloxRandom(counter, key)();
  key[0] = scrambled[0];
  key[1] = scrambled[1];
  counter[0] = counter[1] = 0;
  counter[2] = scrambled[2];
  counter[3] = scrambled[3];
  return PhiloxRandom(counter, key);
}

// Distributions that use one sample of the generator for each number.
template <class Samples, class T>
void fill_groups(PhiloxRandom generator, std::int64_t count, T* data) {
  Samples samples;
  for (std::int64_t i = 0; i < count; i += Samples::kResultElementCount) {
    const auto group = samples(&generator);
    const auto n = std::min<std::int64_t>(Samples::kResultElementCount, count - i);
    std::copy_n(&group[0], n, data + i);
  }
}

// Numbers that are drawn until they fit: a group has a part of the generator's sequence
// of its own.
template <class Samples, class T>
void fill_by_rejection(const PhiloxRandom& generator, std::int64_t count, T* data) {
  constexpr std::int64_t kReserved = 256;  // samples for each number
  constexpr std::int64_t kSkip =
      Samples::kResultElementCount * kReserved / PhiloxRandom::kResultElementCount;
  Samples samples;
  for (std::int64_t i = 0; i < count; i += Samples::kResultElementCount) {
    PhiloxRandom own = generator;
    own.Skip(static_cast<std::uint64_t>(i / Samples::kResultElementCount * kSkip));
    Adapter single(&own);
    const auto group = samples(&single);
    const auto n = std::min<std::int64_t>(Samples::kResultElementCount, count - i);
    std::copy_n(&group[0], n, data + i);
  }
}

template <class T>
absl::Status fill(Distribution distribution, const PhiloxRandom& generator,
                  std::int64_t count, void* memory) {
  using tensorflow::random::NormalDistribution;
  using tensorflow::random::TruncatedNormalDistribution;
  using tensorflow::random::UniformDistribution;
  T* data = static_cast<T*>(memory);
  switch (distribution) {
    case Distribution::kUniform:
      fill_groups<UniformDistribution<PhiloxRandom, T>>(generator, count, data);
      return absl::OkStatus();
    case Distribution::kNormal:
      fill_groups<NormalDistribution<PhiloxRandom, T>>(generator, count, data);
      return absl::OkStatus();
    case Distribution::kTruncatedNormal:
      fill_by_rejection<TruncatedNormalDistribution<Adapter, T>>(generator, count,
                                                                 data);
      return absl::OkStatus();
    case Distribution::kGumbel:
      break;
  }
  if constexpr (std::is_same_v<T, float>) {
    fill_groups<UniformDistribution<PhiloxRandom, float>>(generator, count, data);
    std::for_each(data, data + count, [](float& each) {
      const float uniform = std::max(each, std::numeric_limits<float>::min());
      each = -std::log(-std::log(uniform));
    });
    return absl::OkStatus();
  }
  return absl::InternalError("Gumbel numbers must be float32, got another dtype.");
}

}  // namespace

absl::Status fill_random(Distribution distribution, const std::int32_t* seed,
                         tensorflow::DataType dtype, std::int64_t count, void* data) {
  const PhiloxRandom generator = generator_of(seed);
  switch (dtype) {
    case tensorflow::DT_HALF:
      return fill<Eigen::half>(distribution, generator, count, data);
    case tensorflow::DT_BFLOAT16:
      return fill<Eigen::bfloat16>(distribution, generator, count, data);
    case tensorflow::DT_FLOAT:
      return fill<float>(distribution, generator, count, data);
    case tensorflow::DT_DOUBLE:
      return fill<double>(distribution, generator, count, data);
    default:
      return absl::InternalError(absl::StrCat("no random numbers of dtype ",
                                              tensorflow::DataTypeString(dtype), "."));
  }
}

}  // namespace ipufeed
