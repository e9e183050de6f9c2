// The last error of each thread, and small functions for texts and versions.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "bindings/c/context.hpp"
#include "bindings/c/guard.hpp"
#include "core/harmless.hpp"
#include "core/per_thread.hpp"
#include "dlblas/version.h"

namespace dlblas {
namespace {

struct LastError {
  dlblas_status status = DLBLAS_OK;
  std::string message = {}, op = {}, argument = {}, expected = {}, got = {};
};

}  // namespace

dlblas_status keep_exception() {
  if (!std::current_exception()) throw;
  LastError& last = per_thread<LastError>();
  try {
    throw;
  } catch (const Error& e) {
    const ErrorDetail& d = e.detail();
    last = {static_cast<dlblas_status>(e.kind()),
            harmless_lines(e.what()),
            d.op,
            d.argument,
            d.expected,
            d.got};
  } catch (const std::bad_alloc&) {
    last = {DLBLAS_LAUNCH, "dlblas: memory could not be allocated; expected memory, got none"};
  } catch (const std::exception& e) {
    last = {DLBLAS_INTERNAL,
            text("dlblas: call failed; expected no such failure, got ", harmless(e.what()))};
  } catch (...) {
    last = {DLBLAS_INTERNAL, "dlblas: call failed; expected no failure, got an unknown exception"};
  }
  return last.status;
}

void refuse(ErrorKind kind, const std::string& op, const Refusal& r) {
  throw Error(kind,
              text(op, ": ", r.argument, " ", r.problem, "; expected ", r.expected, ", got ",
                   harmless(r.got), r.advice.empty() ? "" : "; ", r.advice),
              {op, r.argument, r.expected, r.got});
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
  if (!error || error->size < sizeof(dlblas_error)) return;
  using namespace dlblas;
  const LastError& last = per_thread<LastError>();
  *error = {error->size,           last.status,           last.message.c_str(), last.op.c_str(),
            last.argument.c_str(), last.expected.c_str(), last.got.c_str()};
}

dlblas_status dlblas_keep_error(const dlblas_error* error) {
  using namespace dlblas;
  return guarded([&] {
    if (!error || error->size < sizeof(dlblas_error) || error->status < DLBLAS_SHAPE ||
        error->status > DLBLAS_INTERNAL)
      throw Error(ErrorKind::kInternal, "dlblas: error is no failure; expected one, got none");
    const auto words = [](const char* from) { return std::string(from ? from : ""); };
    throw Error(
        static_cast<ErrorKind>(error->status), words(error->message),
        {words(error->op), words(error->argument), words(error->expected), words(error->got)});
  });
}

void dlblas_free(void* memory) {
  try {
    if (!dlblas::free_device_result(memory)) std::free(memory);
  } catch (const dlblas::Error&) {  // a forked child: the memory is the parent's
  }
}

}  // extern "C"
