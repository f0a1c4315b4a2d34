// Numbers and strings, one behind the other.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

namespace absl {

template <class Part>
void append_part(std::string* to, const Part& part) {
  if constexpr (std::is_floating_point_v<Part>) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", static_cast<double>(part));
    to->append(text);
  } else if constexpr (std::is_integral_v<Part>) {
    to->append(std::to_string(part));
  } else {
    to->append(std::string_view(part));
  }
}

template <class... Parts>
void StrAppend(std::string* to, const Parts&... parts) {
  (append_part(to, parts), ...);
}

template <class... Parts>
std::string StrCat(const Parts&... parts) {
  std::string text;
  StrAppend(&text, parts...);
  return text;
}

}  // namespace absl
