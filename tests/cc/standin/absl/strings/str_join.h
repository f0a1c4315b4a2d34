#pragma once

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace absl {

template <class Iterator>
std::string StrJoin(Iterator begin, Iterator end, std::string_view separator) {
  std::string text;
  for (Iterator each = begin; each != end; ++each) {
    if (each != begin) text.append(separator);
    append_part(&text, *each);
  }
  return text;
}

template <class Range>
std::string StrJoin(const Range& range, std::string_view separator) {
  return StrJoin(range.begin(), range.end(), separator);
}

}  // namespace absl
