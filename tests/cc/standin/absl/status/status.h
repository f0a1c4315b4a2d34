// A code and, unless it is OK, a message. Copies share the message.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace absl {

using string_view = std::string_view;

enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, string_view message) : code_(code) {
    if (!ok()) message_ = std::make_shared<const std::string>(message);
  }
  Status(const Status&) = default;
  Status& operator=(const Status&) = default;
  // The other one has an error afterwards that says so, as absl's has: kInternal.
  Status(Status&& other) noexcept
      : code_(other.code_), message_(std::move(other.message_)) {
    if (!ok()) other.code_ = StatusCode::kInternal;
  }
  Status& operator=(Status&& other) noexcept {
    if (this == &other) return *this;
    code_ = other.code_;
    message_ = std::move(other.message_);
    if (!ok()) other.code_ = StatusCode::kInternal;
    return *this;
  }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  string_view message() const {
    return message_ == nullptr ? string_view() : string_view(*message_);
  }
  std::string ToString() const {
    return ok() ? "OK"
                : std::to_string(static_cast<int>(code_)) + ": " +
                      std::string(message());
  }
  // Keeps the first error.
  void Update(const Status& other) {
    if (ok()) *this = other;
  }
  void IgnoreError() const {}

 private:
  StatusCode code_ = StatusCode::kOk;
  std::shared_ptr<const std::string> message_;
};

inline Status OkStatus() { return Status(); }

#define STANDIN_ERROR(Name)                                                           \
  inline Status Name##Error(string_view m) { return Status(StatusCode::k##Name, m); } \
  inline bool Is##Name(const Status& s) { return s.code() == StatusCode::k##Name; }
STANDIN_ERROR(Cancelled)
STANDIN_ERROR(Unknown)
STANDIN_ERROR(InvalidArgument)
STANDIN_ERROR(DeadlineExceeded)
STANDIN_ERROR(NotFound)
STANDIN_ERROR(AlreadyExists)
STANDIN_ERROR(PermissionDenied)
STANDIN_ERROR(ResourceExhausted)
STANDIN_ERROR(FailedPrecondition)
STANDIN_ERROR(Aborted)
STANDIN_ERROR(OutOfRange)
STANDIN_ERROR(Unimplemented)
STANDIN_ERROR(Internal)
STANDIN_ERROR(Unavailable)
STANDIN_ERROR(DataLoss)
#undef STANDIN_ERROR

}  // namespace absl

// From tsl/platform/errors.h, which TensorFlow's headers bring along.
#define TF_RETURN_IF_ERROR(...)                  \
  do {                                           \
    ::absl::Status status_or_ok = (__VA_ARGS__); \
    if (!status_or_ok.ok()) return status_or_ok; \
  } while (false)
