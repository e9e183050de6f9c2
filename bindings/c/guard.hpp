// No exception crosses the shared object's border: every C function runs its body through
// `guarded`. In: a callable. Out: a status; the thread's last error holds the words
// (dlblas_last_error).
#pragma once

#include <new>

#include "core/error.hpp"
#include "dlblas/dlblas.h"

namespace dlblas {

/// Keeps the error for the calling thread and returns its status.
dlblas_status keep_error(const Error& error) noexcept;

template <typename F>
dlblas_status guarded(F&& body) noexcept {
  try {
    body();
    return DLBLAS_OK;
  } catch (const Error& e) {
    return keep_error(e);
  } catch (const std::bad_alloc&) {
    return keep_error(Error(ErrorKind::kInternal, "dlblas: memory could not be allocated"));
  } catch (const std::exception& e) {
    return keep_error(Error(ErrorKind::kInternal, text("dlblas: unexpected failure: ", e.what())));
  }
}

/// A malloc'ed copy for `char**` results; dlblas_free releases it. Does nothing for a null `out`.
void give_text(const std::string& from, char** out);

}  // namespace dlblas
