// Reads the caller's arrays (NumPy's straight from memory, all others through DLPack or the array
// interface) and makes new ones of the caller's type. In: a Python object. Out: Array, a
// dlblas_tensor with its own shape and strides, and whatever keeps it alive. Flow: [Python call] >
// array > dlblas_call.  Read next: bindings/python/marshal.hpp.
#pragma once

#include <algorithm>

#include "bindings/python/hooks.hpp"
#include "bindings/python/views.hpp"

namespace dlblas::py {

/// A tensor argument. Only the used part is initialised, so that a call on two arrays touches two.
struct Array {
  dlblas_tensor tensor;
  std::int64_t shape[DLBLAS_MAX_RANK];
  std::int64_t strides[DLBLAS_MAX_RANK];
  Object* keeper;    // owned: a capsule or nothing; the array itself is kept by the caller's frame
  const char* name;  // of the capsule, which has another one during the call; set with a keeper
  bool numpy;        // read by the fast path: `object` is exactly a numpy.ndarray
  bool written;      // by the call; set where `numpy` is false
  Object* object;    // borrowed

  /// Size in bytes, capped at 2^56: a call refuses more.
  std::int64_t bytes() const {
    constexpr std::int64_t kMax = std::int64_t{1} << 56;
    std::int64_t n = tensor.dtype.bits * tensor.dtype.lanes / 8;
    for (int i = 0; i < tensor.ndim; ++i)
      if (shape[i] < 0 || __builtin_mul_overflow(n, shape[i], &n) || n > kMax) return kMax;
    return n;
  }
  bool is_empty() const { return std::find(shape, shape + tensor.ndim, 0) != shape + tensor.ndim; }
};

/// Where an array was passed, for messages.
struct Place {
  const char* op;
  const char* argument;
  bool written;              // refuse read-only memory
  bool needs_data;           // refuse dlblas.Spec
  Object* stream = nullptr;  // the caller's, an int: what a producer on a GPU must wait for
};

/// Fills `array`; returns false with a Python error set.
bool read_array(Object* object, const Place& place, Array& array);
/// Releases the array's keeper.
void release(Array& array);

/// Makes a contiguous result with the dtype and shape of `spec` and the array type of `like` (may
/// be null: the first importable of NumPy and dlblas.Array). Sets spec.data. Returns an owned
/// reference, or null with a Python error set.
Object* make_array(const Array* like, dlblas_tensor& spec, Array& scratch);

/// A "dltensor" capsule over memory that `owner` keeps alive.
Object* make_capsule(void* data, dlblas_dtype dtype, Object* shape, Object* owner);

/// The same over any tensor, without owning its memory: arrays made from it hold a reference to
/// `views`.
Object* make_view_capsule(const dlblas_tensor& tensor, const Views& views);

}  // namespace dlblas::py
