// NumPy arrays without NumPy's headers: reads the first fields of PyArrayObject, which 1.x and 2.x
// keep in place. The layout is verified, not trusted: at the first ndarray, the fields of probe
// arrays must agree with what Python reports; if they do not (a free-threaded build, a future
// NumPy), arrays take the slow path. Read next: bindings/python/numpy.cpp.
#pragma once

#include "bindings/python/array.hpp"

namespace dlblas::py {

enum class Numpy { kNot, kRead, kFailed };  // not a (readable) ndarray; read; an error is set

/// True for exactly a numpy.ndarray, once one has been read.
bool is_numpy(Object* object);

/// Reads a numpy.ndarray (or subclass) from its memory.
Numpy read_numpy(Object* object, const Place& place, Array& array);

/// numpy.empty(shape, dtype): the dtype object is `like`'s own when the types agree.
Object* new_numpy(const Array& like, dlblas_tensor& spec);

}  // namespace dlblas::py
