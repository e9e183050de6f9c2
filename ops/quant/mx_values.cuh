// Values of microscaling formats: y = q · scale (· global), in f32, one rounding at the store. Each
// thread takes one access of a block of columns. In: codes, scales. Out: y [rows, width].
// Flow: call > validate > select > compile > [launch].  Read next: mx_values_config.hpp.
#pragma once

#include "device/element_f64.cuh"
#include "device/row/values.cuh"
#include "device/vec.cuh"
#include "ops/quant/mx_values_config.hpp"

namespace dlblas::quant {

namespace mx_values_detail {

/// The value of an e2m1 code.
__device__ inline float f4_value(uint32_t code) {
  const uint32_t size = code & 7u;
  const float normal = float_from_bits((size << 22) + (126u << 23));
  const float v = size < 2 ? 0.5f * static_cast<float>(size) : normal;
  return code & 8u ? -v : v;
}

template <MxValuesTraits S>
__device__ inline float scale_of(const MxValuesParams& p, int64_t row, int64_t group) {
  const int64_t at =
      S.plain ? row * p.scale_row + group : offset_of(p.scale, row * p.groups + group);
  const uint32_t code = static_cast<const uint8_t*>(p.scale.data)[at];
  return float_from_bits(S.scale_type == DType::kF8E4M3 ? f8e4m3_to_f32_bits(code)
                                                        : f8e8m0_to_f32_bits(code));
}

template <MxValuesTraits S>
__device__ inline Values<S.access> codes_of(const MxValuesParams& p, int64_t row, int64_t column) {
  constexpr bool kPacked = S.q_type == DType::kU8;
  constexpr int kBytes = kPacked ? S.access / 2 : S.access;
  Vec<DType::kF8E4M3, kBytes> bytes;
  const int64_t first = kPacked ? column / 2 : column;
  if constexpr (S.plain) {
    bytes = load_vec<DType::kF8E4M3, kBytes, kBytes>(p.q.data, row * p.q_row + first);
  } else {
    static_assert(kBytes == 1);
    const int64_t width = kPacked ? p.width / 2 : p.width;
    bytes.words[0] = static_cast<const uint8_t*>(p.q.data)[offset_of(p.q, row * width + first)];
  }
  if constexpr (!kPacked) {
    return values(bytes);
  } else {
    Values<S.access> v;
#pragma unroll
    for (int i = 0; i < S.access; ++i) v.v[i] = f4_value(bytes.words[i / 8] >> (i % 8 * 4) & 15u);
    return v;
  }
}

}  // namespace mx_values_detail

template <MxValuesTraits S>
__global__ void __launch_bounds__(kMxValuesThreads)
    mx_values(const __grid_constant__ MxValuesParams p) {
  using namespace mx_values_detail;
  const int64_t block = blockIdx.x / p.chunks, chunk = blockIdx.x - block * p.chunks;
  const int thread = static_cast<int>(threadIdx.x), side = thread & ((1 << p.across) - 1);
  const int64_t row = block * (kMxValuesThreads >> p.across) + (thread >> p.across);
  const int64_t column = ((chunk << p.across) + side) * S.access;
  if (row >= p.rows || column >= p.width) return;
  Values<S.access> v = codes_of<S>(p, row, column);
  v = v * Values<S.access>(scale_of<S>(p, row, column / S.group));
  if (p.global) v = v * Values<S.access>(*p.global);
  const auto y = rounded<S.type>(v);
  if constexpr (S.plain) {
    store_vec<S.type, S.access, S.access * size_of(S.type)>(p.y.data, row * p.y_row + column, y);
  } else {
#pragma unroll
    for (int i = 0; i < S.access; ++i) {
      Vec<S.type, 1> one = rounded<S.type>(Values<1>(v.v[i]));
      store_vec<S.type, 1, 1>(p.y.data, offset_of(p.y, row * p.width + column + i), one);
    }
  }
}

}  // namespace dlblas::quant
