// The last error of each thread, and the small functions around texts and versions.
#include <cstdlib>
#include <cstring>
#include <new>

#include "bindings/c/guard.hpp"
#include "core/error.hpp"
#include "dlblas/version.h"

namespace dlblas {
namespace {

struct LastError {
  dlblas_status status = DLBLAS_OK;
  std::string message, op, argument, expected, got;
};
thread_local LastError t_error;

}  // namespace

dlblas_status keep_exception() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    const ErrorDetail& d = e.detail();
    t_error = {static_cast<dlblas_status>(e.kind()), e.what(), d.op, d.argument, d.expected, d.got};
  } catch (const std::bad_alloc&) {
    t_error = {DLBLAS_INTERNAL, "dlblas: memory could not be allocated", "", "", "", ""};
  } catch (const std::exception& e) {
    t_error = {DLBLAS_INTERNAL, text("dlblas: unexpected failure: ", e.what()), "", "", "", ""};
  } catch (...) {
    t_error = {DLBLAS_INTERNAL, "dlblas: unexpected failure", "", "", "", ""};
  }
  return t_error.status;
}

void give_text(const std::string& from, char** out) {
  if (!out) return;
  *out = static_cast<char*>(std::malloc(from.size() + 1));
  if (!*out) throw std::bad_alloc();
  std::memcpy(*out, from.c_str(), from.size() + 1);
}

}  // namespace dlblas

extern "C" {

uint32_t dlblas_abi_version(void) { return DLBLAS_ABI_VERSION; }
const char* dlblas_version(void) { return DLBLAS_VERSION; }

void dlblas_last_error(dlblas_error* error) {
  using dlblas::t_error;
  if (!error || error->size < sizeof(dlblas_error)) return;
  *error = {error->size,        t_error.status,           t_error.message.c_str(),
            t_error.op.c_str(), t_error.argument.c_str(), t_error.expected.c_str(),
            t_error.got.c_str()};
}

void dlblas_free(void* memory) { std::free(memory); }

}  // extern "C"
