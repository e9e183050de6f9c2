// Element types for the CUDA text of users' own kernels: f16 and bf16 that read as float and are
// made from one, rounded to nearest even. In: nothing. Out: own::f16, own::bf16; before the user's
// text the library adds `own::x` for each tensor x. No header of CUDA is needed.
// Read next: bindings/c/register_cuda.cpp, docs/own.md.
#pragma once

#include "device/numeric.cuh"

namespace own {

template <dlblas::FloatType T>
struct Half {
  uint16_t bits;

  Half() = default;
  __device__ Half(float value) : bits(static_cast<uint16_t>(dlblas::pack_one<T>(value))) {}
  __device__ operator float() const { return dlblas::unpack_one<T>(bits); }
};
using f16 = Half<dlblas::FloatType::kF16>;
using bf16 = Half<dlblas::FloatType::kBF16>;

}  // namespace own
