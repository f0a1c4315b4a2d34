// Functions of users' shared libraries, with the interface of the original's CPU user
// operations. A library stays loaded: programs in memory and in files refer to it.

#include <dlfcn.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/mutex.h"
#include "host/host_call.h"
#include "tensorflow/core/platform/errors.h"

namespace ipufeed {
namespace {

constexpr std::int32_t kApiLevel = 5;

using Callback = void (*)(const std::vector<const void*>& data,
                          const std::vector<std::uint32_t>& number_of_elements,
                          const std::vector<void*>& outputs,
                          const std::string& attributes, const std::string& name);

// glibc keeps it for each thread.
const char* loader_error() {
  return dlerror();  // NOLINT(concurrency-mt-unsafe)
}

class Libraries {
 public:
  static Libraries& get() {
    static auto* const libraries = new Libraries;
    return *libraries;
  }

  // The function of a library, which is loaded at its first use. Any thread.
  absl::Status find(const std::string& path, const std::string& symbol,
                    Callback* found) {
    MutexLock lock(mutex_);
    void*& handle = handles_[path];
    if (handle == nullptr) handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return absl::NotFoundError(loader_error());
    const auto* level =
        static_cast<const std::int32_t*>(dlsym(handle, "custom_op_api_level"));
    const std::int32_t of_library = level == nullptr ? 0 : *level;
    if (of_library != kApiLevel) {
      return absl::InternalError(absl::StrCat(
          "Api level of module ", path, ", op name ", symbol, " is ", of_library,
          ", expected ", kApiLevel,
          ". See section `API Level Versioning` in documentation for more details."));
    }
    *found = reinterpret_cast<Callback>(dlsym(handle, symbol.c_str()));
    if (*found == nullptr) return absl::NotFoundError(loader_error());
    return absl::OkStatus();
  }

 private:
  Mutex mutex_;
  std::map<std::string, void*> handles_ IPUFEED_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status call_library(const HostCall& call) {
  const std::string text(call.text, static_cast<std::size_t>(call.text_size));
  const std::vector<std::string> parts = absl::StrSplit(text, '\0');
  if (parts.size() < 4)
    return absl::InternalError("a library's call without its text.");
  Callback function = nullptr;
  TF_RETURN_IF_ERROR(Libraries::get().find(parts[0], parts[1], &function));
  std::vector<const void*> data;
  std::vector<std::uint32_t> elements;
  std::vector<void*> outputs;
  outputs.reserve(static_cast<std::size_t>(call.outputs));
  for (std::int32_t i = 0; i < call.inputs; ++i) {
    data.push_back(call.input[i].data);
    elements.push_back(static_cast<std::uint32_t>(call.input[i].elements));
  }
  for (std::int32_t i = 0; i < call.outputs; ++i) {
    outputs.push_back(call.output[i].data);
  }
  function(data, elements, outputs, parts[3], parts[2]);
  return absl::OkStatus();
}

}  // namespace ipufeed
