// Quantises one row to codes and scales, compiled once per instruction set: converts its values to
// f32, then computes the largest magnitude, the scale and the codes group by group. In:
// QuantGroupsRow. Numerics: ops/common/quant_scale.hpp, ops/common/quant_groups/quant_mx.hpp. Flow:
// call > validate > select > compile > [launch]. Read next: cpu/row/bytes.hpp,
// quant_groups_cpu.cpp.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"  // what rows alone call
#include "cpu/row/bytes.hpp"
#include "cpu/row/values.hpp"
#pragma GCC diagnostic pop
#include "ops/common/quant_groups/quant_mx.hpp"
#include "ops/common/quant_powers.hpp"
#include "ops/common/quant_scale.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Elements i … i + n − 1, padded with zeros.
template <DType E>
DLBLAS_INLINE Vec load_first(const void* row, int64_t i, int n) {
  return n == kWidth ? load<E>(at<E>(row, i)) : load_partial<E>(at<E>(row, i), n);
}

template <DType E>
void make_values(const quant::QuantGroupsRow& row) {
  for (int64_t i = 0; i < row.width; i += kWidth) {
    const int n = static_cast<int>(row.width - i < kWidth ? row.width - i : kWidth);
    Vec v = load_first<E>(row.x, i, n);
    if (row.up) v = silu(v) * load_first<E>(row.up, i, n);
    if (n == kWidth)
      store<DType::kF32>(row.values + i, v);
    else
      store_partial<DType::kF32>(row.values + i, v, n);
  }
}

/// The bits of the largest magnitude; NaN compares as the largest.
DLBLAS_INLINE uint32_t largest_bits(const float* values, int64_t count) {
  Ints most = {};
  for (int64_t i = 0; i < count; i += kWidth) {
    const int n = static_cast<int>(count - i < kWidth ? count - i : kWidth);
    most = max(most, (Ints)abs(load_first<DType::kF32>(values, i, n)));
  }
  int32_t all = 0;
  for (int lane = 0; lane < kWidth; ++lane) all = most[lane] > all ? most[lane] : all;
  return static_cast<uint32_t>(all);
}

/// e2m1 codes in the low bits of each lane, rounded to nearest even, saturated; NaN becomes the
/// largest. Like encode() in cpu/row/bytes.hpp, with one fraction bit.
DLBLAS_INLINE Ints encode_f4(Vec v) {
  const Vec a = min_number(abs(v), broadcast(6.0f));
  const Ints power = max((Ints)a & 0x7f800000, (Ints)broadcast(1.0f));
  const Ints rounder = power + (22 << 23);
  const Ints code = (Ints)(a + (Vec)rounder) + ((power >> 22) - rounder) - (127 << 1);
  return choose(is_nan(v), Ints{} + 7, code | (((Ints)v >> 28) & 8));
}
/// Stores an even number of codes, two per byte.
DLBLAS_INLINE void store_f4(char* to, Ints codes, int n) {
  uint8_t one[kWidth];
  const Bytes bytes = __builtin_convertvector(codes, Bytes);
  __builtin_memcpy(one, &bytes, sizeof one);
  for (int i = 0; i + 1 < n; i += 2) to[i / 2] = static_cast<char>(one[i] | one[i + 1] << 4);
}

template <DType Q>
DLBLAS_INLINE void store_group(const float* values, int64_t count, float factor, char* to) {
  const Vec by = broadcast(factor);
  for (int64_t i = 0; i < count; i += kWidth) {
    const int n = static_cast<int>(count - i < kWidth ? count - i : kWidth);
    const Vec v = load_first<DType::kF32>(values, i, n) * by;
    if constexpr (Q == DType::kU8)
      store_f4(to + i / 2, encode_f4(v), n);
    else
      store_bytes_partial(Q, to + i, v, n);
  }
}
void store_codes(DType type, const float* values, int64_t count, float factor, char* to) {
  if (type == DType::kU8)
    store_group<DType::kU8>(values, count, factor, to);
  else if (type == DType::kF8E4M3)
    store_group<DType::kF8E4M3>(values, count, factor, to);
  else if (type == DType::kF8E5M2)
    store_group<DType::kF8E5M2>(values, count, factor, to);
  else
    store_group<DType::kI8>(values, count, factor, to);
}

/// Stores the scale of group `at`; returns the factor that its elements are multiplied by.
float make_scale(const quant::QuantGroupsRow& row, uint32_t most, int64_t at) {
  if (row.kind == quant::QuantScaleKind::kFloat) {
    const float amax = __builtin_bit_cast(float, most);
    const float scale =
        quant::QuantPowers::of(quant::QuantScale<CpuMath>::of(amax, row.largest), row.powers);
    static_cast<float*>(row.scale)[at] = scale;
    return 1 / scale;
  }
  auto* codes = static_cast<uint8_t*>(row.scale);
  if (row.kind == quant::QuantScaleKind::kMx) {
    const quant::MxScale scale = quant::MxScales::power(most, row.q_type);
    codes[at] = static_cast<uint8_t>(scale.code);
    return scale.factor;
  }
  const Vec wanted = broadcast(quant::MxScales::wanted(most, row.global));
  const Ints code = encode<DType::kF8E4M3>(wanted);
  codes[at] = static_cast<uint8_t>(code[0]);
  return quant::MxScales::factor(decode<DType::kF8E4M3>(code)[0], row.global);
}

}  // namespace

void quant_groups_row(const quant::QuantGroupsRow& row) {
  const auto* values = static_cast<const float*>(row.x);
  if (row.up || row.type != DType::kF32) {
    values = row.values;
    if (row.type == DType::kF32)
      make_values<DType::kF32>(row);
    else if (row.type == DType::kF16)
      make_values<DType::kF16>(row);
    else
      make_values<DType::kBF16>(row);
  }
  const int64_t by = row.q_type == DType::kU8 ? 2 : 1;
  for (int64_t begin = 0, at = 0; begin < row.width; begin += row.group, ++at) {
    const int64_t left = row.width - begin, count = left < row.group ? left : row.group;
    const float factor = make_scale(row, largest_bits(values + begin, count), at);
    store_codes(row.q_type, values + begin, count, factor, static_cast<char*>(row.q) + begin / by);
  }
}

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
