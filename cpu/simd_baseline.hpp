// The toolbox of cpu/simd.hpp for every CPU: 4 lanes with the compilers' vector extensions (SSE2 on
// x86-64, NEON on aarch64), f16 and bf16 with integer operations. Included by cpu/simd.hpp alone.
// The conversions match core/dtype.hpp, lane by lane. Read next: cpu/row/walk.hpp.
#pragma once

// NOLINTBEGIN(google-build-namespaces)
namespace dlblas::baseline {
namespace {

using Vec = float __attribute__((vector_size(16)));
using Bits = uint32_t __attribute__((vector_size(16)));
using Half4 = uint16_t __attribute__((vector_size(8)));
constexpr int kWidth = 4;

DLBLAS_INLINE Vec zero() { return Vec{0, 0, 0, 0}; }
DLBLAS_INLINE Vec broadcast(float s) { return Vec{s, s, s, s}; }
DLBLAS_INLINE Vec add(Vec a, Vec b) { return a + b; }
DLBLAS_INLINE Vec mul(Vec a, Vec b) { return a * b; }
/// Rounds once if the target has a fused instruction, else twice.
DLBLAS_INLINE Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
DLBLAS_INLINE float reduce_add(Vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }

DLBLAS_INLINE Bits splat(uint32_t u) { return Bits{u, u, u, u}; }
DLBLAS_INLINE Bits select(Bits mask, Bits yes, Bits no) { return (mask & yes) | (~mask & no); }
template <typename To, typename From>
DLBLAS_INLINE To cast(From v) {
  static_assert(sizeof(To) == sizeof(From));
  To out;
  __builtin_memcpy(&out, &v, sizeof out);
  return out;
}

/// Widens 4 stored 16-bit elements.
template <DType E>
DLBLAS_INLINE Vec widen(Half4 stored) {
  const Bits h = __builtin_convertvector(stored, Bits);
  if constexpr (E == DType::kBF16) return cast<Vec>(h << 16);
  const Bits magnitude = h & 0x7fffu;
  // Scaling by 2^112 moves the exponent and normalises denormals in one exact multiplication.
  const Bits scaled = cast<Bits>(cast<Vec>(magnitude << 13) * broadcast(0x1p112f));
  const Bits special = splat(0x7f800000u) | (magnitude << 13);
  const Bits is_special = cast<Bits>(magnitude >= 0x7c00u);
  return cast<Vec>(select(is_special, special, scaled) | ((h & 0x8000u) << 16));
}

/// The f32 bits of v rounded to bf16, in the upper half of each lane; the lower half is not
/// cleared.
template <Nans N = Nans::kAny>
DLBLAS_INLINE Bits bf16_bits(Vec v) {
  const Bits u = cast<Bits>(v);
  if constexpr (N == Nans::kShort) return u + 0x7fffu + ((u >> 16) & 1u);
  // A NaN keeps its upper payload and becomes quiet: rounding could carry it into infinity.
  const Bits is_nan = cast<Bits>((u & 0x7fffffffu) > 0x7f800000u);
  return select(is_nan, u | 0x400000u, u + 0x7fffu + ((u >> 16) & 1u));
}

DLBLAS_INLINE Bits f16_bits(Vec v) {
  const Bits u = cast<Bits>(v);
  const Bits a = u & 0x7fffffffu;
  const Bits normal = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
  // Below 2^-14 the last mantissa bits of (a + 0.5) are the denormal, rounded by the addition.
  const Bits denormal = cast<Bits>(cast<Vec>(a) + broadcast(0.5f)) - 0x3f000000u;
  const Bits nan = splat(0x7e00u) | ((a >> 13) & 0x3ffu);
  Bits h = select(cast<Bits>(a < 0x38800000u), denormal, normal);
  h = select(cast<Bits>(a >= 0x477ff000u), splat(0x7c00u), h);  // rounds to 65520 or more
  h = select(cast<Bits>(a > 0x7f800000u), nan, h);
  return h | ((u >> 16) & 0x8000u);
}

/// Narrows to 4 elements of 16 bits.
template <DType E>
DLBLAS_INLINE Half4 narrow(Vec v) {
  if constexpr (E == DType::kF16) return __builtin_convertvector(f16_bits(v), Half4);
  return __builtin_convertvector(bf16_bits(v) >> 16, Half4);
}

template <DType E, Nans N = Nans::kAny>
DLBLAS_INLINE Vec round(Vec v) {
  if constexpr (E == DType::kF32) return v;
  if constexpr (E == DType::kF16) return widen<E>(narrow<E>(v));
  return cast<Vec>(bf16_bits<N>(v) & 0xffff0000u);
}

template <DType E>
DLBLAS_INLINE Vec load(const void* p) {
  if constexpr (E == DType::kF32) {
    Vec v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  Half4 h;
  __builtin_memcpy(&h, p, sizeof h);
  return widen<E>(h);
}
template <DType E>
DLBLAS_OUTLINE Vec load_partial(const void* p, int n) {
  char lanes[kWidth * kElementBytes<E>] = {};
  for (int i = 0; i < n; ++i) {
    __builtin_memcpy(lanes + i * kElementBytes<E>, at<E>(p, i), kElementBytes<E>);
  }
  return load<E>(lanes);
}
template <DType E>
DLBLAS_INLINE void store(void* p, Vec v) {
  if constexpr (E == DType::kF32) {
    __builtin_memcpy(p, &v, sizeof v);
    return;
  }
  const Half4 h = narrow<E>(v);
  __builtin_memcpy(p, &h, sizeof h);
}
template <DType E>
DLBLAS_OUTLINE void store_partial(void* p, Vec v, int n) {
  char lanes[kWidth * kElementBytes<E>];
  store<E>(lanes, v);
  for (int i = 0; i < n; ++i) {
    __builtin_memcpy(at<E>(p, i), lanes + i * kElementBytes<E>, kElementBytes<E>);
  }
}
/// On aarch64 an ordinary store: the compilers there offer no portable hint.
template <DType E>
DLBLAS_INLINE void stream(void* p, Vec v) {
#if defined(__x86_64__)
  if constexpr (E == DType::kF32) return _mm_stream_ps(static_cast<float*>(p), v);
  _mm_stream_si64(static_cast<long long*>(p), cast<long long>(narrow<E>(v)));
#else
  store<E>(p, v);
#endif
}

/// Two vectors of contiguous elements. bf16 is split into even and odd elements, which needs no
/// permutation: half of the conversion's work (rms_norm bf16 512x4096 on Zen 4: see
/// docs/notes/norm_kernels.md).
struct Pair {
  Vec a, b;
};

/// 2 * kWidth elements of W, in the lane order of load2<E, E>.
template <DType W, DType E>
DLBLAS_INLINE Pair load2(const void* p) {
  static_assert(W == E || W == DType::kF32);
  if constexpr (W == DType::kBF16) {
    const Bits h = cast<Bits>(load<DType::kF32>(p));
    return {cast<Vec>(h << 16), cast<Vec>(h & 0xffff0000u)};
  }
  const Vec first = load<W>(p), second = load<W>(at<W>(p, kWidth));
  if constexpr (E != DType::kBF16) return {first, second};
  return {__builtin_shufflevector(first, second, 0, 2, 4, 6),
          __builtin_shufflevector(first, second, 1, 3, 5, 7)};
}

/// 8 stored elements from their even and odd lanes, as 4 lanes of 32 bits.
template <Nans N>
DLBLAS_INLINE Vec bf16_pair(Pair v) {
  return cast<Vec>((bf16_bits<N>(v.a) >> 16) | (bf16_bits<N>(v.b) & 0xffff0000u));
}

/// Inverse of load2<E, E>.
template <DType E, Nans N = Nans::kAny>
DLBLAS_INLINE void store2(void* p, Pair v) {
  if constexpr (E == DType::kBF16) return store<DType::kF32>(p, bf16_pair<N>(v));
  store<E>(p, v.a);
  store<E>(at<E>(p, kWidth), v.b);
}
/// Like store2, but bypasses the caches; p is aligned to two stored vectors.
template <DType E, Nans N = Nans::kAny>
DLBLAS_INLINE void stream2(void* p, Pair v) {
  if constexpr (E == DType::kBF16) return stream<DType::kF32>(p, bf16_pair<N>(v));
  stream<E>(p, v.a);
  stream<E>(at<E>(p, kWidth), v.b);
}

}  // namespace
}  // namespace dlblas::baseline
// NOLINTEND(google-build-namespaces)
