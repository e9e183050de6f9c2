// Element types for the CUDA source of users' own kernels: f16, bf16 and f8 that convert to float
// and from float, rounded to nearest even; f8 saturates. In: nothing. Out: own::f16, own::bf16,
// own::f8e4m3, own::f8e5m2; before the user's source the library adds `own::x` for each tensor x.
// Needs no CUDA header.
// Read next: bindings/c/register_cuda.cpp, docs/own.md.
#pragma once

#include "device/numeric.cuh"

namespace own {

template <dlblas::DType T, typename Bits>
struct Narrow {
  Bits bits;

  Narrow() = default;
  __device__ Narrow(float value) : bits(static_cast<Bits>(dlblas::pack_one<T>(value))) {}
  __device__ operator float() const { return dlblas::unpack_one<T>(bits); }
};
using f16 = Narrow<dlblas::DType::kF16, uint16_t>;
using bf16 = Narrow<dlblas::DType::kBF16, uint16_t>;
using f8e4m3 = Narrow<dlblas::DType::kF8E4M3, uint8_t>;
using f8e5m2 = Narrow<dlblas::DType::kF8E5M2, uint8_t>;

}  // namespace own
