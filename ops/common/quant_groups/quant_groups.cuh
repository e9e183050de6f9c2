// Quantises groups of columns to codes and scales: each thread holds one access of a group, its
// neighbouring lanes the rest, and shuffles find the group's largest magnitude. x is read once;
// scales may have any strides. In: x [rows, width], or [gate | up]. Out: codes q, scales. Numerics:
// ops/common/quant_scale.hpp, ops/common/quant_groups/quant_mx.hpp; maxima are taken over bit
// patterns, so their order does not matter. Flow: call > validate > select > compile > [launch].
// Read next: quant_groups_config.hpp.
#pragma once

#include "device/element_f64.cuh"
#include "device/row/values.cuh"
#include "device/vec.cuh"
#include "ops/common/quant_groups/quant_mx.hpp"
#include "ops/common/quant_powers.hpp"
#include "ops/common/quant_scale.hpp"

namespace dlblas::quant {

namespace quant_groups_detail {

/// The position of a thread's columns.
struct Place {
  int64_t row, outer, inner;  // outer, inner: the row as [E, M], where rows are counted
  int64_t column;
  __device__ int64_t offset(int64_t at_row, int64_t at_outer, bool counted) const {
    return counted ? outer * at_outer + inner * at_row : row * at_row;
  }
};

__device__ inline int64_t count_of(const QuantGroupsParams& p, int64_t outer) {
  const auto* from = static_cast<const uint8_t*>(p.count) + outer * p.count_stride * p.count_bytes;
  uint64_t bits = 0;
  for (int i = 0; i < p.count_bytes; ++i) bits |= static_cast<uint64_t>(from[i]) << (8 * i);
  return p.count_bytes == 8 ? static_cast<int64_t>(bits) : static_cast<int32_t>(bits);
}

/// Loads S.access elements of the row, starting at `column`.
template <QuantGroupsTraits S>
__device__ inline Values<S.access> load_x(const QuantGroupsParams& p, const Place& at,
                                          int64_t column) {
  if constexpr (S.plain) {
    const int64_t row = at.offset(p.x_row, p.x_outer, S.counted);
    return values(load_vec<S.type, S.access, S.access * size_of(S.type)>(p.x.data, row + column));
  } else {
    const int64_t first = at.row * p.width * (S.gated ? 2 : 1) + column;
    Values<S.access> v(0.0f);
#pragma unroll
    for (int i = 0; i < S.access; ++i)
      if (at.column + i < p.width)
        v.v[i] = values(load_vec<S.type, 1, 1>(p.x.data, offset_of(p.x, first + i))).v[0];
    return v;
  }
}

/// The e2m1 code of v, rounded to nearest even, saturated; NaN becomes the largest.
__device__ inline uint32_t f4_code(float v) {
  if (v != v) return 7;
  const float a = fminf(fabsf(v), 6.0f);
  // The power of 2 of a's binade, at least 1. Adding `rounder` rounds a: the sum's last bit is one
  // e2m1 step.
  const uint32_t power = max(bits_of_float(a) & 0x7f800000u, 0x3f800000u);
  const uint32_t rounder = power + (22u << 23);
  const uint32_t code =
      bits_of_float(a + float_from_bits(rounder)) - rounder + (power >> 22) - (127u << 1);
  return code | (bits_of_float(v) >> 28 & 8u);
}

template <QuantGroupsTraits S>
__device__ inline void store_codes(const QuantGroupsParams& p, const Place& at,
                                   const Values<S.access>& v) {
  constexpr bool kPacked = S.q_type == DType::kU8;
  constexpr int kBytes = kPacked ? S.access / 2 : S.access;
  constexpr DType kStored = kPacked ? DType::kI8 : S.q_type;
  Vec<kStored, kBytes> codes;
  if constexpr (kPacked) {
#pragma unroll
    for (int i = 0; i < Vec<kStored, kBytes>::kWords; ++i) codes.words[i] = 0;
#pragma unroll
    for (int i = 0; i < S.access; ++i) codes.words[i / 8] |= f4_code(v.v[i]) << (i % 8 * 4);
  } else {
    codes = rounded<S.q_type>(v);
  }
  const int64_t column = kPacked ? at.column / 2 : at.column;
  if constexpr (S.plain) {
    const int64_t row = at.offset(p.q_row, p.q_outer, S.counted);
    store_vec<kStored, kBytes, kBytes>(p.q.data, row + column, codes);
  } else {
    const int64_t first = at.row * (kPacked ? p.width / 2 : p.width) + column;
    auto* to = static_cast<uint8_t*>(p.q.data);
#pragma unroll
    for (int i = 0; i < kBytes; ++i)
      if (at.column + i * (S.access / kBytes) < p.width)
        to[offset_of(p.q, first + i)] = static_cast<uint8_t>(codes.words[i / 4] >> (i % 4 * 8));
  }
}

template <QuantGroupsTraits S>
__device__ inline int64_t scale_offset(const QuantGroupsParams& p, const Place& at) {
  const int64_t group = at.column / S.group;
  if constexpr (S.plain)
    return at.offset(p.scale_row, p.scale_outer, S.counted) + group * p.scale_group;
  else
    return offset_of(p.scale, at.row * p.groups + group);
}

/// The scale of a group whose largest magnitude has the bits `most`, stored by the thread that
/// `leads`. Returns the factor that its elements are multiplied by.
template <QuantGroupsTraits S>
__device__ inline float make_scale(const QuantGroupsParams& p, const Place& at, uint32_t most,
                                   bool leads) {
  if constexpr (S.scale == QuantScaleKind::kFloat) {
    const float plain = quant::QuantScale<DeviceMath>::of(float_from_bits(most), p.largest);
    const float scale = quant::QuantPowers::of(plain, p.powers);
    Vec<DType::kF32, 1> word;
    word.words[0] = bits_of_float(scale);
    if (leads)
      store_vec<DType::kF32, 1, S.plain ? 4 : 1>(p.scale.data, scale_offset<S>(p, at), word);
    return DeviceMath::reciprocal(scale);
  } else {
    quant::MxScale scale;
    if constexpr (S.scale == QuantScaleKind::kMx) {
      scale = quant::MxScales::power(most, S.q_type);
    } else {
      const float global = *p.global;
      scale.code = f32_bits_to_f8e4m3(bits_of_float(quant::MxScales::wanted(most, global)));
      const float step = float_from_bits(f8e4m3_to_f32_bits(scale.code));
      scale.factor = quant::MxScales::factor(step, global);
    }
    if (leads)
      static_cast<uint8_t*>(p.scale.data)[scale_offset<S>(p, at)] =
          static_cast<uint8_t>(scale.code);
    return scale.factor;
  }
}

}  // namespace quant_groups_detail

template <QuantGroupsTraits S>
__global__ void __launch_bounds__(kQuantGroupsThreads)
    quant_groups(const __grid_constant__ QuantGroupsParams p) {
  using namespace quant_groups_detail;
  constexpr int kLanes = S.group / S.access;
  const int64_t block = blockIdx.x / p.chunks, chunk = blockIdx.x - block * p.chunks;
  const int thread = static_cast<int>(threadIdx.x), side = thread & ((1 << p.across) - 1);
  Place at;
  at.row = block * (kQuantGroupsThreads >> p.across) + (thread >> p.across);
  at.outer = S.counted ? static_cast<uint32_t>(at.row) / static_cast<uint32_t>(p.inner) : 0;
  at.inner = S.counted ? at.row - at.outer * p.inner : 0;
  at.column = ((chunk << p.across) + side) * S.access;
  bool inside = at.row < p.rows && at.column < p.width;
  if (S.counted && inside) inside = at.inner < count_of(p, at.outer);
  if (!__any_sync(~0u, inside)) return;
  Values<S.access> v(0.0f);
  if (inside) {
    v = load_x<S>(p, at, at.column);
    if constexpr (S.gated) v = silu(v) * load_x<S>(p, at, p.width + at.column);
  }
  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < S.access; ++i) most = max(most, bits_of_float(v.v[i]) & 0x7fffffffu);
#pragma unroll
  for (int d = 1; d < kLanes; d *= 2) most = max(most, __shfl_xor_sync(~0u, most, d));
  const bool leads = inside && side % kLanes == 0;
  const float factor = make_scale<S>(p, at, most, leads);
  if (inside) store_codes<S>(p, at, v * Values<S.access>(factor));
}

}  // namespace dlblas::quant
