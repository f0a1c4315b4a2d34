// A value of any type.
#pragma once

#include <any>

namespace tensorflow {

class Variant {
 public:
  template <class T>
  const T* get() const {
    return std::any_cast<T>(&value_);
  }

 private:
  std::any value_;
};

}  // namespace tensorflow
