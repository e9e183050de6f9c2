// Typed exceptions of the C++ API, thrown only on the caller's side: none crosses the shared
// object's boundary. In: a dlblas_status and the calling thread's dlblas_last_error. Out: the
// exception class of that status. Messages: `<op>: <argument> <problem>; expected <x>, got <y>;
// <what to do>`. Read next: tensor.hpp.
#ifndef DLBLAS_ERROR_HPP_
#define DLBLAS_ERROR_HPP_

#include <dlblas/dlblas.h>
#include <dlblas/cpp20.hpp>

#include <stdexcept>
#include <string>

// The inline namespace keeps these names apart from the library's own when both are linked into one
// program.
namespace dlblas {
inline namespace v1 {

/// Base class of every exception of the library. Its four texts are empty where they do not apply.
class Error : public std::runtime_error {
 public:
  explicit Error(const dlblas_error& error)
      : std::runtime_error(error.message),
        status_(error.status),
        op_(error.op),
        argument_(error.argument),
        expected_(error.expected),
        got_(error.got) {}
  dlblas_status status() const { return status_; }
  const std::string& op() const { return op_; }
  const std::string& argument() const { return argument_; }
  const std::string& expected() const { return expected_; }
  const std::string& got() const { return got_; }

 private:
  dlblas_status status_;
  std::string op_, argument_, expected_, got_;
};

/// A size disagrees with the schema, or with a letter that another argument has already bound.
class ShapeMismatchError : public Error {
  using Error::Error;
};
/// A dtype outside the argument's class, or a result read as another type.
class UnsupportedDtypeError : public Error {
  using Error::Error;
};
/// Tensors on different devices, or on a device that this build or machine does not support.
class DeviceError : public Error {
  using Error::Error;
};
/// A missing, unknown, repeated or wrong argument; overlapping memory.
class ArgumentError : public Error {
  using Error::Error;
};
/// No operator of that name; the message lists the existing ones.
class UnknownOperatorError : public Error {
  using Error::Error;
};
/// No implementation can serve the call; the message lists every candidate with its reason.
class UnsupportedError : public Error {
  using Error::Error;
};
/// A kernel could not be compiled, or a compiler is missing; the message says which.
class CompileError : public Error {
  using Error::Error;
};
/// A kernel, the caller's allocator or its parallel_for failed.
class LaunchError : public Error {
  using Error::Error;
};
/// No measured candidate was right; the message lists what failed, and how.
class TuningFailedError : public Error {
  using Error::Error;
};
/// A fault of the library or of its machine: out of memory, a broken installation.
class InternalError : public Error {
  using Error::Error;
};

namespace detail {

[[noreturn]] inline void raise(const dlblas_error& error) {
  switch (error.status) {
    case DLBLAS_SHAPE:
      throw ShapeMismatchError(error);
    case DLBLAS_DTYPE:
      throw UnsupportedDtypeError(error);
    case DLBLAS_DEVICE:
      throw DeviceError(error);
    case DLBLAS_ARGUMENT:
      throw ArgumentError(error);
    case DLBLAS_UNKNOWN_OPERATOR:
      throw UnknownOperatorError(error);
    case DLBLAS_UNSUPPORTED:
      throw UnsupportedError(error);
    case DLBLAS_COMPILE:
      throw CompileError(error);
    case DLBLAS_LAUNCH:
      throw LaunchError(error);
    case DLBLAS_TUNING:
      throw TuningFailedError(error);
    default:
      throw InternalError(error);
  }
}

/// For errors that only this side can detect:
/// `<argument> <problem>; expected <expected>, got <got>`.
[[noreturn]] inline void raise(dlblas_status status, const std::string& argument,
                               const std::string& problem, const std::string& expected,
                               const std::string& got) {
  const std::string message =
      "dlblas: " + argument + " " + problem + "; expected " + expected + ", got " + got;
  raise({sizeof(dlblas_error), status, message.c_str(), "", argument.c_str(), expected.c_str(),
         got.c_str()});
}

[[noreturn]] inline void raise_last() {
  dlblas_error error = {};
  error.size = sizeof error;
  dlblas_last_error(&error);
  raise(error);
}

inline void check(dlblas_status status) {
  if (status != DLBLAS_OK) [[unlikely]]
    raise_last();
}

}  // namespace detail
}  // namespace v1
}  // namespace dlblas

#endif  // DLBLAS_ERROR_HPP_
