// SIMD toolbox of the CPU kernels: one vector of f32, and its conversions from and to memory as
// f32, f16 and bf16. Compiled once per instruction set: the translation unit's flags choose the
// width (16, 8 or 4 lanes) and the namespace, dlblas::avx512, dlblas::avx2 or dlblas::baseline.
// Everything is in an unnamed namespace, so an object has no symbol to which another level's object
// could be linked.
//
// clang-format off
//   DLBLAS_ISA                  the namespace
//   kWidth, kVectorBytes<E>     lanes of a vector; bytes of one in memory
//   load<E>(p)                  E in memory -> f32 lanes
//   load_partial<E>(p, n)       the first n lanes, zeros above
//   store<E>(p, v)              rounds to nearest even; NaN stays NaN
//   store_partial<E>(p, v, n)   the same for the first n lanes
//   stream<E>(p, v)             stores, bypassing the caches; p is aligned
//   round<E>(v)                 to E and back
//   zip, unzip                  even and odd lanes of two vectors
//   zero broadcast add mul fma reduce_add prefetch stream_fence
// clang-format on
//
// Read next: cpu/simd_avx512.hpp (the shortest of the three).
#pragma once

#include <stdint.h>

#include "device/dtype.hpp"

#if defined(__x86_64__)
// g++ 12 takes its headers' "undefined" vectors for uninitialised variables (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define DLBLAS_ISA avx512
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define DLBLAS_ISA avx2
#else
#define DLBLAS_ISA baseline
#endif

// Forced, also at -O0: a debug build must not pay a call per vector, and vectors stay in registers.
#define DLBLAS_INLINE inline __attribute__((always_inline))
// For loops with few, known steps: without it g++ -O2 keeps vectors in memory (softmax takes 1.6
// times as long).
#if defined(__clang__)
#define DLBLAS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define DLBLAS_UNROLL _Pragma("GCC unroll 32")
#endif
// For tails processed element by element: inlined, they made the norm objects three times larger.
#define DLBLAS_OUTLINE __attribute__((noinline))
// The same, and never a second copy for a caller's constants.
#if defined(__clang__)
#define DLBLAS_ONCE __attribute__((noinline))
#else
#define DLBLAS_ONCE __attribute__((noinline, noclone))
#endif

// NOLINTBEGIN(google-build-namespaces): the unnamed namespace is the point, see above.
namespace dlblas::DLBLAS_ISA {
namespace {

/// Which NaNs a value may hold before it is narrowed to bf16. NaNs that stem from bf16 and f16
/// inputs, or from arithmetic, have zeros in their lower half: rounding cannot carry them into
/// infinity.
enum class Nans : unsigned char { kAny, kShort };

/// Bytes of one element in memory.
template <DType E>
constexpr int kElementBytes = E == DType::kF32 ? 4 : 2;

/// Element i of a row whose pointer may have any alignment.
template <DType E>
DLBLAS_INLINE const char* at(const void* row, int64_t i) {
  return static_cast<const char*>(row) + i * kElementBytes<E>;
}
template <DType E>
DLBLAS_INLINE char* at(void* row, int64_t i) {
  return static_cast<char*>(row) + i * kElementBytes<E>;
}

/// Prefetches the cache line of p; any address is allowed.
DLBLAS_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }

/// Orders streaming stores before what follows; call once per task, after its last stream().
DLBLAS_INLINE void stream_fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#include "cpu/simd_avx512.hpp"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "cpu/simd_avx2.hpp"
#else
#include "cpu/simd_baseline.hpp"
#endif

// NOLINTBEGIN(google-build-namespaces)
namespace dlblas::DLBLAS_ISA {
namespace {

/// Bytes of a vector in memory: the alignment that stream<E> needs; stream2<E> needs twice that.
template <DType E>
constexpr int kVectorBytes = kWidth* kElementBytes<E>;

/// The even and the odd lanes of a, then b, and back. Templates, since indices depend on the width.
template <typename V>
DLBLAS_INLINE Pair unzip(V a, V b) {
  if constexpr (sizeof(V) == 16)
    return {__builtin_shufflevector(a, b, 0, 2, 4, 6), __builtin_shufflevector(a, b, 1, 3, 5, 7)};
  else if constexpr (sizeof(V) == 32)
    return {__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14),
            __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)};
  else
    return {
        __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
        __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)};
}
template <typename V>
DLBLAS_INLINE Pair zip(V a, V b) {
  if constexpr (sizeof(V) == 16)
    return {__builtin_shufflevector(a, b, 0, 4, 1, 5), __builtin_shufflevector(a, b, 2, 6, 3, 7)};
  else if constexpr (sizeof(V) == 32)
    return {__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11),
            __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)};
  else
    return {__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
            __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                    31)};
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
