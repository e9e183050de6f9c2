// The values of one access as f32, and the functions that programs use: + − · /, fma, exp, silu, …
// on N elements at once. On a CPU the same names work on SIMD vectors (cpu/row/values.hpp).
// Numerics: exp2, reciprocal and rsqrt are the hardware's approximations, to 2 ulp; exp(x) =
// 2^(x·log2 e) adds a relative error of |x|·2^-24. Subnormal results are 0. Read next:
// device/row/access.cuh.
#pragma once

#include "device/float8.hpp"
#include "device/row/base.hpp"
#include "device/scale.cuh"
#include "device/words.cuh"

namespace dlblas {

inline constexpr float kLog2E = 1.44269504f;

/// Functions of one value: what finalize() uses.
struct DeviceMath {
  __device__ static float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  __device__ static float exp(float x) { return exp2(x * kLog2E); }
  __device__ static float log(float x) {
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y * 0.69314718f;
  }
  __device__ static float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  __device__ static float rsqrt(float x) { return reciprocal_root(x); }
  __device__ static float fma(float a, float b, float c) { return fmaf(a, b, c); }
  /// a / b, as a product with 1/b.
  __device__ static double quotient(double a, double, double inverse) { return a * inverse; }
  /// a / b with IEEE rounding, where b is 6, 127, 448 or 57344 and the result is at least 2^-126
  /// (tried for every a): one reciprocal for all of a thread's quotients.
  __device__ static float quotient(float a, float b) {
    const float near = reciprocal(b), inverse = fmaf(near, fmaf(-b, near, 1.0f), near);
    const float q = a * inverse;
    return q <= 0x1p126f ? fmaf(fmaf(-q, b, a), inverse, q) : q;  // of infinity and NaN: themselves
  }
  /// Did a sum of squares come close to the limit of f32?
  template <typename T>
  __device__ static bool overflows(T sum) {
    return sum > static_cast<T>(0x1p126);
  }
  __device__ static float abs(float x) { return fabsf(x); }
  /// NaN wins.
  __device__ static float max(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
  }
  __device__ static float min(float a, float b) {
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
  }
  __device__ static float sigmoid(float x) { return reciprocal(1.0f + exp(-x)); }
  /// 0 below −87.3, where the reciprocal is 0; NaN for −inf, as in x / (1 + e^−x).
  __device__ static float silu(float x) { return x * sigmoid(x); }
  __device__ static float tanh(float x) { return ::tanhf(x); }
  __device__ static float infinity() { return __int_as_float(0x7f800000); }
};

// In a namespace of their own: found by their arguments, they hide no min or exp of plain numbers.
namespace rows {

template <int N>
struct Values {
  float v[N];
  Values() = default;
  __device__ Values(float s) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = s;
  }
#define DLBLAS_ROW_OPERATOR(op)                                              \
  __device__ friend Values operator op(const Values& a, const Values& b) {   \
    Values r;                                                                \
    _Pragma("unroll") for (int i = 0; i < N; ++i) r.v[i] = a.v[i] op b.v[i]; \
    return r;                                                                \
  }
  DLBLAS_ROW_OPERATOR(+)
  DLBLAS_ROW_OPERATOR(-)
  DLBLAS_ROW_OPERATOR(*)
  DLBLAS_ROW_OPERATOR(/)
#undef DLBLAS_ROW_OPERATOR
};

template <int N, typename F>
__device__ inline Values<N> for_each_value(const Values<N>& a, F f) {
  Values<N> r;
#pragma unroll
  for (int i = 0; i < N; ++i) r.v[i] = f(a.v[i]);
  return r;
}
template <int N, typename F>
__device__ inline Values<N> for_each_value(const Values<N>& a, const Values<N>& b, F f) {
  Values<N> r;
#pragma unroll
  for (int i = 0; i < N; ++i) r.v[i] = f(a.v[i], b.v[i]);
  return r;
}
template <int N>
__device__ inline Values<N> fma(const Values<N>& a, const Values<N>& b, const Values<N>& c) {
  Values<N> r;
#pragma unroll
  for (int i = 0; i < N; ++i) r.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
  return r;
}
/// A divisor of many values, scaled towards 1 where f32 cannot hold its reciprocal well.
struct Divisor {
  float nearer, value, inverse;  // inverse: to 1 unit of the last place
  __device__ explicit Divisor(float divisor) {
    const float size = fabsf(divisor);
    nearer = size < 0x1p-100f ? 0x1p100f : size > 0x1p100f ? 0x1p-100f : 1.0f;
    value = divisor * nearer, inverse = DeviceMath::reciprocal(value);
  }
};
/// a / divisor, for one divisor of all, to one ulp of f32 where the quotient is below 2^60, and
/// most often exact: its reciprocal is computed once, and each quotient corrected by its remainder.
/// Real divisions use a unit that runs at a quarter of the rate.
template <int N>
__device__ inline Values<N> quotient(const Values<N>& a, float divisor) {
  const Divisor by(divisor);
  // Divisors 0 and infinity are left uncorrected.
  const float left = fmaf(-by.inverse, by.value, 1.0f);
  const bool mends = fabsf(left) < 1;
  const float inverse = mends ? fmaf(left, by.inverse, by.inverse) : by.inverse;
  return for_each_value(a, [=](float x) {
    const float y = x * by.nearer, q = y * inverse;
    // Subtracts the excess of q, so that −0 stays −0.
    return mends && fabsf(q) < 0x1p60f ? fmaf(fmaf(q, by.value, -y), -inverse, q) : q;
  });
}
/// The same to 3 roundings, for values with larger errors: a third of the instructions.
template <int N>
__device__ inline Values<N> near_quotient(const Values<N>& a, float divisor) {
  const Divisor by(divisor);
  return for_each_value(a, [=](float x) { return x * by.nearer * by.inverse; });
}
#define DLBLAS_ROW_FUNCTION(name)                        \
  template <int N>                                       \
  __device__ inline Values<N> name(const Values<N>& a) { \
    return for_each_value(a, &DeviceMath::name);         \
  }
DLBLAS_ROW_FUNCTION(exp2)
DLBLAS_ROW_FUNCTION(exp)
DLBLAS_ROW_FUNCTION(log)
DLBLAS_ROW_FUNCTION(reciprocal)
DLBLAS_ROW_FUNCTION(abs)
DLBLAS_ROW_FUNCTION(sigmoid)
DLBLAS_ROW_FUNCTION(silu)
#undef DLBLAS_ROW_FUNCTION
template <int N>
__device__ inline Values<N> max(const Values<N>& a, const Values<N>& b) {
  return for_each_value(a, b, &DeviceMath::max);
}
template <int N>
__device__ inline Values<N> min(const Values<N>& a, const Values<N>& b) {
  return for_each_value(a, b, &DeviceMath::min);
}
/// `yes` where x < 0, `no` elsewhere and for NaN.
template <int N>
__device__ inline Values<N> choose_negative(const Values<N>& x, const Values<N>& yes,
                                            const Values<N>& no) {
  Values<N> r;
#pragma unroll
  for (int i = 0; i < N; ++i) r.v[i] = x.v[i] < 0 ? yes.v[i] : no.v[i];
  return r;
}
template <int N>
__device__ inline Values<N> tanh(const Values<N>& a) {
  return for_each_value(a, [](float x) { return ::tanhf(x); });
}
template <int N>
__device__ inline Values<N> erf(const Values<N>& a) {
  return for_each_value(a, [](float x) { return ::erff(x); });
}

/// To 2 ulp, for arguments of any size.
template <int N>
__device__ inline void sin_cos(const Values<N>& a, Values<N>& sin, Values<N>& cos) {
#pragma unroll
  for (int i = 0; i < N; ++i) ::sincosf(a.v[i], &sin.v[i], &cos.v[i]);
}

}  // namespace rows

using rows::Values;

namespace detail {
// Unpacks and packs two f8 in the lower half of a word; in integers before sm_89.
#if __CUDA_ARCH__ >= 890
template <DType T>
__device__ inline FloatPair unpack_f8_pair(uint32_t bits) {
  uint32_t halves;
  if constexpr (T == DType::kF8E4M3)
    asm("{\n .reg .b16 b;\n cvt.u16.u32 b, %1;\n cvt.rn.f16x2.e4m3x2 %0, b;\n}"
        : "=r"(halves)
        : "r"(bits));
  else
    asm("{\n .reg .b16 b;\n cvt.u16.u32 b, %1;\n cvt.rn.f16x2.e5m2x2 %0, b;\n}"
        : "=r"(halves)
        : "r"(bits));
  return unpack_pair<DType::kF16>(halves);
}
template <DType T>
__device__ inline uint32_t pack_f8_pair(float low, float high) {
  uint32_t bits;
  if constexpr (T == DType::kF8E4M3)
    asm("{\n .reg .b16 b;\n cvt.rn.satfinite.e4m3x2.f32 b, %1, %2;\n cvt.u32.u16 %0, b;\n}"
        : "=r"(bits)
        : "f"(high), "f"(low));
  else
    asm("{\n .reg .b16 b;\n cvt.rn.satfinite.e5m2x2.f32 b, %1, %2;\n cvt.u32.u16 %0, b;\n}"
        : "=r"(bits)
        : "f"(high), "f"(low));
  return bits;
}
#else
template <DType T>
__device__ inline float f8_value(uint32_t code) {
  return float_from_bits(T == DType::kF8E4M3 ? f8e4m3_to_f32_bits(code) : f8e5m2_to_f32_bits(code));
}
template <DType T>
__device__ inline FloatPair unpack_f8_pair(uint32_t bits) {
  return {f8_value<T>(bits & 0xffu), f8_value<T>(bits >> 8 & 0xffu)};
}
template <DType T>
__device__ inline uint32_t pack_f8_pair(float low, float high) {
  const auto code = [](float v) {
    const auto bits = static_cast<uint32_t>(__float_as_int(v));
    return T == DType::kF8E4M3 ? f32_bits_to_f8e4m3(bits) : f32_bits_to_f8e5m2(bits);
  };
  return code(low) | code(high) << 8;
}
#endif
__device__ inline uint32_t pack_i8(float v) {
  int32_t i;
  asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(i) : "f"(v));
  return static_cast<uint32_t>(i) & 0xffu;
}
}  // namespace detail

/// Words of memory as values.
template <DType T, int N>
__device__ inline Values<N> values(const Vec<T, N>& w) {
  Values<N> r;
  if constexpr (T == DType::kI8) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      r.v[i] = static_cast<float>(static_cast<int8_t>(w.words[i / 4] >> (i % 4 * 8)));
  } else if constexpr (size_of(T) == 1) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const FloatPair pair = detail::unpack_f8_pair<T>(w.words[i / 4] >> (i % 4 * 8));
      r.v[i] = pair.low;
      if constexpr (N > 1) r.v[i + 1] = pair.high;
    }
  } else {
    w.unpack(r.v);
  }
  return r;
}
/// The same a second time, after a reduction: see RowUnpack.
template <DType T, int N>
__device__ inline Values<N> values(const Vec<T, N>& w, const RowUnpack& unpack) {
  if constexpr (T == DType::kBF16) {
    Values<N> r;
#pragma unroll
    for (int i = 0; i < Vec<T, N>::kWords; ++i) {
      r.v[2 * i] = float_from_bits(w.words[i] << unpack.shift);
      if constexpr (N > 1) r.v[2 * i + 1] = float_from_bits(w.words[i] & unpack.mask);
    }
    return r;
  } else if constexpr (T == DType::kF16) {
    Vec<T, N> h = w;
#pragma unroll
    for (int i = 0; i < Vec<T, N>::kWords; ++i) h.words[i] ^= unpack.shift - 16;
    return values(h);
  } else {
    return values(w);
  }
}
/// Values rounded once to words of memory.
template <DType T, int N>
__device__ inline Vec<T, N> rounded(const Values<N>& a) {
  Vec<T, N> w;
  if constexpr (size_of(T) == 1) {
#pragma unroll
    for (int i = 0; i < Vec<T, N>::kWords; ++i) w.words[i] = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (T == DType::kI8)
        w.words[i / 4] |= detail::pack_i8(a.v[i]) << (i % 4 * 8);
      else if (i % 2 == 0)
        w.words[i / 4] |= detail::pack_f8_pair<T>(a.v[i], N > 1 ? a.v[i + (N > 1)] : 0.0f)
                          << (i % 4 * 8);
    }
  } else {
    w.pack(a.v);
  }
  return w;
}
/// w · s; 16-bit words stay packed across a reduction, as with RowUnpack, since `first` is unknown.
template <DType T, int N>
__device__ inline Values<N> scaled(const Vec<T, N>& w, const RowScale<T>& s) {
  if constexpr (size_of(T) == 2) {
    Values<N> r;
    const uint32_t first = s.first_pair();
#pragma unroll
    for (int i = 0; i < Vec<T, N>::kWords; ++i) {
      const FloatPair pair = scaled_pair<T>(w.words[i], first, s.second);
      r.v[2 * i] = pair.low;
      if constexpr (N > 1) r.v[2 * i + 1] = pair.high;
    }
    return r;
  } else {
    return values(w) * Values<N>(s.first) * Values<N>(s.second);
  }
}
/// a + b rounded to words of memory: 16-bit types in one instruction per pair.
template <DType T, int N>
__device__ inline Vec<T, N> add_rounded(const Vec<T, N>& a, const Vec<T, N>& b) {
  if constexpr (size_of(T) == 2) {
    Vec<T, N> h;
#pragma unroll
    for (int i = 0; i < Vec<T, N>::kWords; ++i) h.words[i] = add_words<T>(a.words[i], b.words[i]);
    return h;
  } else {
    return rounded<T>(values(a) + values(b));
  }
}

}  // namespace dlblas
