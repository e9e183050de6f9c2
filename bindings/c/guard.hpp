// No exception crosses the shared object's boundary: every C function runs its body through
// `guarded`. In: a callable. Out: a status; the thread's last error holds the message
// (dlblas_last_error).
#pragma once

#include <string>

#include "core/error.hpp"
#include "core/in_flight.hpp"
#include "dlblas/dlblas.h"

namespace dlblas {

/// Stores the exception being handled as the calling thread's last error and returns its status.
/// Call only inside a catch (...). A thread that ends inside a call (pthread_cancel; Python's
/// daemon threads at exit, in a ctypes callback) unwinds with something that is not a C++
/// exception; that unwinding continues.
dlblas_status keep_exception();

template <typename F>
dlblas_status guarded(F&& body) {
  try {
    const InFlight in_flight;
    body();
    return DLBLAS_OK;
  } catch (...) {
    return keep_exception();
  }
}

/// The message of a refusal at this boundary: "<op>: <argument> <problem>; expected <expected>, got
/// <got>; <advice>".
struct Refusal {
  std::string argument, problem, expected, got, advice = {};
};
[[noreturn]] void refuse(ErrorKind kind, const std::string& op, const Refusal& refusal);

/// A malloc'ed copy for `char**` results; dlblas_free releases it. Does nothing for a null `out`.
void give_text(const std::string& from, char** out);

}  // namespace dlblas
