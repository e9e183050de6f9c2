// Element types that CPU kernels read and write, as instruction-set code sees them: an enum, no
// functions. A copy of the first three values of core/dtype.hpp, because objects compiled for
// AVX-512 must not hold shared inline functions (the linker keeps one copy of those, perhaps the
// AVX-512 one, for all). Read next: cpu/simd.hpp.
#pragma once

namespace dlblas {

/// Equal to the DType of the same name; host code asserts it where it converts.
enum class Element : unsigned char { kF32, kF16, kBF16 };
inline constexpr int kNumElements = 3;

}  // namespace dlblas
