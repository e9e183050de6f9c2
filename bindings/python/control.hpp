// What Python asks beside operator calls, over the same marshaller: explain, tune, get_op, verify,
// reference. Each is a builtin of positional arguments, wrapped with names and documentation in
// python/dlblas/. Read next: bindings/python/control.cpp.
#pragma once

#include "bindings/python/cpython.hpp"

namespace dlblas::py {

struct ControlEntry {
  const char* name;
  FastFunction function;
};
/// Ends in a null name.
extern const ControlEntry kControlFunctions[];

}  // namespace dlblas::py
