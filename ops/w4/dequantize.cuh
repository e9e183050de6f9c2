// Dequantises 4-bit weights on NVIDIA GPUs: (q − zero) · scale in f32, one rounding. Each thread
// computes eight columns of eight rows. It loads scales once per group, and its words and results
// are next to its neighbours'. In: W4Params. Out: y [depth, columns]. Flow: call > validate >
// select > compile > [launch].  Read next: dequantize_config.hpp.
#pragma once

#include "device/row/values.cuh"
#include "device/vec.cuh"
#include "ops/w4/dequantize_config.hpp"

namespace dlblas::w4 {

namespace detail {

/// The nibble in which AWQ stores column c of eight.
constexpr __device__ int awq_place(int c) { return c / 2 + c % 2 * 4; }

/// 2^23 + a nibble, exactly.
__device__ __forceinline__ float lifted(uint32_t word, int place) {
  return float_from_bits(0x4b000000u | (word >> 4 * place & 15u));
}

/// Loads a word as f32: only its bits matter, never the value.
__device__ __forceinline__ uint32_t word_at(const W4Matrix& m, int64_t row, int64_t col) {
  return load_vec<DType::kF32, 1, 1>(m.data, row * m.row + col * m.col).words[0];
}

/// A group's scales and zeros for a thread's eight columns.
template <W4Traits S>
struct Group {
  float scale[8], zero[8];  // zero: 2^23 more

  __device__ __forceinline__ void load(const W4Params& p, int64_t r, int64_t n0) {
    uint32_t stored = 0x88888888u;
    if constexpr (S.plain) {
      load_vec<S.type, 8>(p.scales.data, r * p.scales.row + n0).unpack(scale);
      if constexpr (S.zeros)
        stored = load_vec<DType::kF32, 1, 4>(p.zeros.data, r * p.zeros.row + n0 / 8).words[0];
    } else {
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        scale[c] = 0;
        if (n0 + c >= p.columns) continue;
        const int64_t at = r * p.scales.row + (n0 + c) * p.scales.col;
        scale[c] = values(load_vec<S.type, 1, 1>(p.scales.data, at)).v[0];
      }
      if constexpr (S.zeros) stored = word_at(p.zeros, r, n0 / 8);
    }
    const float plus = S.zeros ? static_cast<float>(p.plus) : 0.0f;
#pragma unroll
    for (int c = 0; c < 8; ++c) zero[c] = lifted(stored, S.along_k ? c : awq_place(c)) + plus;
  }
};

}  // namespace detail

template <W4Traits S>
__global__ void __launch_bounds__(kW4Threads) dequantize(const __grid_constant__ W4Params p) {
  using namespace detail;
  const int64_t across = (p.columns + 7) / 8;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kW4Threads + threadIdx.x;
  const int64_t down = item / across, n0 = (item - down * across) * 8, k0 = down * 8;
  if (k0 >= p.depth) return;
  const int rows = p.depth - k0 < 8 ? static_cast<int>(p.depth - k0) : 8;
  uint32_t words[8] = {};
  if constexpr (S.along_k && S.plain) {
    const auto eight = load_vec<DType::kF32, 8>(p.q.data, down * p.q.row + n0);
#pragma unroll
    for (int c = 0; c < 8; ++c) words[c] = eight.words[c];
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if constexpr (S.along_k) {
        if (n0 + i < p.columns) words[i] = word_at(p.q, down, n0 + i);
      } else if (i < rows) {
        words[i] = S.plain
                       ? load_vec<DType::kF32, 1, 4>(p.q.data, (k0 + i) * p.q.row + n0 / 8).words[0]
                       : word_at(p.q, k0 + i, n0 / 8);
      }
    }
  }
  int64_t r = k0 / p.group, next = (r + 1) * p.group;
  Group<S> group;
  group.load(p, r, n0);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i >= rows) break;
    if (k0 + i == next) group.load(p, ++r, n0), next += p.group;
    float v[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const float q = S.along_k ? lifted(words[c], i) : lifted(words[i], awq_place(c));
      v[c] = (q - group.zero[c]) * group.scale[c];
    }
    if constexpr (S.plain) {
      Vec<S.type, 8> y;
      y.pack(v);
      store_vec<S.type, 8>(p.y.data, (k0 + i) * p.y.row + n0, y);
    } else {
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        if (n0 + c >= p.columns) continue;
        store_vec<S.type, 1, 1>(p.y.data, (k0 + i) * p.y.row + (n0 + c) * p.y.col,
                                rounded<S.type>(Values<1>(v[c])));
      }
    }
  }
}

}  // namespace dlblas::w4
