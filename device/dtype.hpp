// Element types: an enum without functions, because objects compiled for AVX-512 include it and
// must not contain shared inline functions (the linker keeps one copy for all, possibly the AVX-512
// one). Read next: device/types.hpp.
#pragma once

namespace dlblas {

/// Element types, everywhere: in a Problem, a store record, a kernel.
enum class DType : unsigned char {
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI8,
  kI32,
  kI64,
  kU8,
  kBool,
  kF64,
  kF8E8M0,  // a scale: 2^(byte - 127), 255 is NaN
  kF4X2,    // two e2m1 numbers a byte, the first in the low half
  kAbsent,  // an optional tensor that was not given
};

}  // namespace dlblas
