// What the data plane delegates to Python: rare cases that are easier to handle there
// (python/dlblas/_hooks.py). In: the hooks dictionary of dlblas_python_init. Out: `hooks`, and
// errors raised with their types. Read next: bindings/python/array.hpp.
#pragma once

#include <string_view>

#include "bindings/python/cpython.hpp"
#include "core/error.hpp"
#include "dlblas/dlblas.h"

namespace dlblas::py {

/// Borrowed from the dictionary, which lives as long as the process.
struct Hooks {
  Object* error;    // (status, message, op, argument, expected, got) -> exception
  Object* ndarray;  // () -> (numpy.ndarray, numpy.empty, probes) once numpy is imported, else None
  Object* numpy_dtype;  // (dtype) -> (code, bits), or text saying why it cannot be
  Object* numpy_descr;  // (code, bits) -> dtype
  Object* exchange;    // (object, op, argument, written, runs, stream) -> capsule | (address, code,
                       // bits, shape, byte strides, read only, CUDA device, …)
  Object* wrote;       // (object) after a call has written into a caller's array
  Object* stream;      // (object on a GPU) -> int, the stream that its library works on now
  Object* new_output;  // (like, code, bits, shape, CUDA device or -1) -> array to write into
  Object* number;      // (like, argument, value, code, bits) -> array without dimensions, on a GPU
  Object* finish;      // (like, array) -> what the caller gets
  Object*
      dtype_name;     // (object) -> "f32" out of a table that lives as long as the process, or None
  Object* docstring;  // (form, operator, family, formula, schema) -> text below the signature
  Object* other_forms;  // {name: (arguments, keywords) -> the result of a call that the operator's
                        // form does not take, or None}
  Object* older_forms;  // {name: the same of forms that users of other libraries know}
  Object* takes_dim;    // (form, operator) -> whether a call may say dim=-1
  // From python/dlblas/_torch_bridge.py, through set_torch(); null until then.
  Object* attach;       // (array): if it is torch's, registers with torch
  Object* torch_error;  // (form, arguments, exception type) -> typed error, or None
};
extern Hooks hooks;

/// Reads the hooks from the dictionary; returns the name of a missing one, or null.
const char* read_hooks(Object* dictionary);

inline Object* make_text(std::string_view s) {
  return api.unicode(s.data(), static_cast<Size>(s.size()));
}

/// Raises an internal error in Python. Always returns null.
Object* raise(const Error& error);

/// Raises the typed error of the calling thread's last failure in the library. Always returns null.
Object* raise_last_error();

/// Raises a typed error of the data plane's own, in the library's message format. Always returns
/// null.
struct Complaint {
  dlblas_status status;
  const char* op;
  const char* argument;
  const char* problem;  // "is read-only"
  const char* expected;
  const char* got;
  const char* remedy;
};
Object* raise(const Complaint& complaint);

}  // namespace dlblas::py
