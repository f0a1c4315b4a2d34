// A line on stdout, since stderr is for what fails a test: reports of stalls come here.
#pragma once

#include <cstdio>
#include <sstream>

namespace tensorflow {

class LogLine {
 public:
  explicit LogLine(const char* severity) { text_ << severity << ": "; }
  ~LogLine() { std::printf("%s\n", text_.str().c_str()); }
  template <class Part>
  LogLine& operator<<(const Part& part) {
    text_ << part;
    return *this;
  }

 private:
  std::ostringstream text_;
};

}  // namespace tensorflow

#define LOG(severity) ::tensorflow::LogLine(#severity)
