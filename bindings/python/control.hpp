// Everything that Python requests besides operator calls, through the same marshaller: explain,
// tune, get_op, verify, reference. Each is a builtin with positional arguments, wrapped with names
// and documentation in python/dlblas/. Read next: bindings/python/control.cpp.
#pragma once

#include "bindings/python/cpython.hpp"

namespace dlblas::py {

struct ControlEntry {
  const char* name;
  FastFunction function;
};
/// Terminated by a null name.
extern const ControlEntry kControlFunctions[];

}  // namespace dlblas::py
