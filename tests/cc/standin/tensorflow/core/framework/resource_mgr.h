// Objects that count their references, and a map of them that has one of each.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace tensorflow {
namespace core {

class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  void Ref() const { references_.fetch_add(1, std::memory_order_relaxed); }
  // Pairs with itself: the last one sees what the others did before theirs.
  bool Unref() const {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) > 1) return false;
    delete this;
    return true;
  }

 protected:
  virtual ~RefCounted() = default;

 private:
  mutable std::atomic<int> references_{1};
};

class ScopedUnref {
 public:
  explicit ScopedUnref(const RefCounted* object) : object_(object) {}
  ~ScopedUnref() {
    if (object_ != nullptr) object_->Unref();
  }
  ScopedUnref(const ScopedUnref&) = delete;
  ScopedUnref& operator=(const ScopedUnref&) = delete;

 private:
  const RefCounted* const object_;
};

struct RefCountDeleter {
  void operator()(const RefCounted* object) const { object->Unref(); }
};
template <class T>
using RefCountPtr = std::unique_ptr<T, RefCountDeleter>;

}  // namespace core

class ResourceBase : public core::RefCounted {
 public:
  virtual std::string DebugString() const = 0;
};

class ResourceMgr {
 public:
  ResourceMgr() = default;
  ResourceMgr(const ResourceMgr&) = delete;
  ResourceMgr& operator=(const ResourceMgr&) = delete;
  ~ResourceMgr() {
    for (const auto& [name, resource] : resources_) resource->Unref();
  }

  const std::string& default_container() const { return default_container_; }

  // With a reference for the caller. `create` is called with the lock.
  template <class T>
  absl::Status LookupOrCreate(const std::string& container, const std::string& name,
                              T** resource,
                              const std::function<absl::Status(T**)>& create) {
    std::lock_guard<std::mutex> lock(mutex_);
    ResourceBase*& found = resources_[container + "/" + name];
    if (found == nullptr) {
      T* created = nullptr;
      TF_RETURN_IF_ERROR(create(&created));
      found = created;
    }
    found->Ref();
    *resource = static_cast<T*>(found);
    return absl::OkStatus();
  }

 private:
  const std::string default_container_ = "localhost";
  std::mutex mutex_;  // guards resources_
  std::map<std::string, ResourceBase*> resources_;
};

}  // namespace tensorflow
