// The part of init.cpp that also runs after start-up. Read next: bindings/python/own.cpp.
#pragma once

#include "bindings/python/cpython.hpp"

namespace dlblas::py {

/// A tuple of (name, builtin, operator, family, schema, parameters, names of results) for each
/// callable form that has none yet. Null with a Python error set.
Object* new_entries(bool all);

}  // namespace dlblas::py
