// Scales over tiles: a block's threads find the largest |x| of a tile, then read the tile again,
// from the caches, to write its codes. A tensor takes two kernels: the blocks of the first store
// one partial maximum each, and every block of the second reduces them all. Maxima are taken on
// bits, so their order does not change the results. In: x [T, K]. Out: codes q [T, K] and scales.
// Numerics: ops/common/quant_scale.hpp; codes are x · (1 / scale) rounded to nearest even,
// saturated. Flow: call > validate > select > compile > [launch]. Read next: tiles_config.hpp,
// device/row/values.cuh.
#pragma once

#include "device/element_f64.cuh"
#include "device/reduce.cuh"
#include "device/row/values.cuh"
#include "device/vec.cuh"
#include "ops/common/quant_powers.hpp"
#include "ops/common/quant_scale.hpp"
#include "ops/quant/tiles_config.hpp"

namespace dlblas::quant {

namespace quant_tiles_detail {

template <QuantTilesTraits S>
using Loaded = Vec<S.type, S.access>;

template <QuantTilesTraits S>
__device__ inline Loaded<S> load_x(const void* x, int64_t offset) {
  constexpr int kBytes = S.access * size_of(S.type);
  return load_vec<S.type, S.access,
                  (S.access > 1 ? kBytes
                   : S.aligned  ? size_of(S.type)
                                : 1)>(x, offset);
}
template <QuantTilesTraits S>
__device__ inline void store_q(void* q, int64_t offset, const Loaded<S>& x,
                               const float (&factors)[S.access]) {
  rows::Values<S.access> v = values(x);
#pragma unroll
  for (int i = 0; i < S.access; ++i) v.v[i] *= factors[i];
  store_vec<S.q_type, S.access, S.access>(q, offset, rounded<S.q_type>(v));
}
template <QuantTilesTraits S>
__device__ inline void store_scale(const QuantTilesParams& p, int64_t offset, float scale) {
  Vec<DType::kF32, 1> word;
  word.words[0] = bits_of_float(scale);
  store_vec<DType::kF32, 1, S.aligned ? 4 : 1>(p.scale.data, offset, word);
}
template <QuantTilesTraits S>
__device__ inline void add_maxima(uint32_t (&most)[S.access], const Loaded<S>& x) {
  const rows::Values<S.access> v = values(x);
#pragma unroll
  for (int i = 0; i < S.access; ++i) most[i] = max(most[i], bits_of_float(v.v[i]) & 0x7fffffffu);
}
__device__ inline float scale_of_bits(uint32_t most, const QuantTilesParams& p) {
  const float powers = p.powers != 0;
  return quant::QuantPowers::of(quant::QuantScale<DeviceMath>::of(float_from_bits(most), p.largest),
                                powers);
}

/// The largest of `values[0 … count)` in every thread. No thread may write them meanwhile.
__device__ inline uint32_t largest_of(const uint32_t* values, int count) {
  uint32_t most = 0;
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < count; i += kWarp)
    most = max(most, values[i]);
  return __reduce_max_sync(~0u, most);
}

/// Calls f(offset in elements) for each access of this thread in the tensor's tiles that this block
/// takes.
template <QuantTilesTraits S, typename F>
__device__ inline void each_access(const QuantTilesParams& p, const F& f) {
  constexpr int kLanes = quant_lanes(S), kStep = kQuantThreads / kLanes;
  constexpr int64_t kRows = kStep * kQuantRows, kColumns = kLanes * S.access;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t across = (p.width + kColumns - 1) / kColumns;
  const int64_t tiles = (p.rows + kRows - 1) / kRows * across;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t down = tile / across;
    const int64_t c = (tile - down * across) * kColumns + lane * S.access;
    const int64_t first = down * kRows + static_cast<int>(threadIdx.x) / kLanes;
#pragma unroll
    for (int i = 0; i < kQuantRows; ++i) {
      const int64_t row = first + i * kStep, index = row * p.width + c;
      if (row < p.rows && c < p.width && index < p.total) f(index);
    }
  }
}

}  // namespace quant_tiles_detail

/// One tile per block: 128 rows by 128 columns, or some columns of all rows.
template <QuantTilesTraits S>
__global__ void __launch_bounds__(kQuantThreads)
    quantize_tiles(const __grid_constant__ QuantTilesParams p) {
  using namespace quant_tiles_detail;
  constexpr bool kBlocks = S.tile == QuantTile::kBlock;
  constexpr int kLanes = quant_lanes(S), kStep = kQuantThreads / kLanes;
  constexpr int kColumns = kLanes * S.access;
  __shared__ uint32_t most[kColumns];
  for (int i = static_cast<int>(threadIdx.x); i < kColumns; i += kQuantThreads) most[i] = 0;
  __syncthreads();
  const int64_t across = (p.width + kColumns - 1) / kColumns;
  const int64_t down = kBlocks ? blockIdx.x / across : 0, side = blockIdx.x - down * across;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t c = side * kColumns + lane * S.access;
  const bool inside = c < p.width;
  const int64_t first = down * kQuantBlock + static_cast<int>(threadIdx.x) / kLanes;
  const int64_t end = kBlocks ? min(p.rows, (down + 1) * kQuantBlock) : p.rows;
  if (inside) {
    uint32_t own[S.access] = {};
#pragma unroll 4
    for (int64_t row = first; row < end; row += kStep)
      add_maxima<S>(own, load_x<S>(p.x.data, offset_of(p.x, row * p.width) + c * p.x_stride));
#pragma unroll
    for (int i = 0; i < S.access; ++i) atomicMax(&most[lane * S.access + i], own[i]);
  }
  __syncthreads();
  float factors[S.access];
  if constexpr (kBlocks) {
    const float scale = scale_of_bits(largest_of(most, kColumns), p);
#pragma unroll
    for (int i = 0; i < S.access; ++i) factors[i] = DeviceMath::reciprocal(scale);
    if (threadIdx.x == 0)
      store_scale<S>(p, offset_of(p.scale, down * across) + side * p.scale_stride, scale);
  } else {
#pragma unroll
    for (int i = 0; i < S.access; ++i) {
      const float scale = scale_of_bits(most[lane * S.access + i], p);
      factors[i] = DeviceMath::reciprocal(scale);
      if (inside && static_cast<int>(threadIdx.x) < kLanes)
        store_scale<S>(p, (c + i) * p.scale_stride, scale);
    }
  }
  if (!inside) return;
#pragma unroll 4
  for (int64_t row = first; row < end; row += kStep) {
    const Loaded<S> x = load_x<S>(p.x.data, offset_of(p.x, row * p.width) + c * p.x_stride);
    store_q<S>(p.q.data, offset_of(p.q, row * p.width) + c * p.q_stride, x, factors);
  }
}

/// Finds the largest |x| of each block's part of a tensor.
template <QuantTilesTraits S>
__global__ void __launch_bounds__(kQuantThreads)
    quantize_tensor_parts(const __grid_constant__ QuantTilesParams p) {
  using namespace quant_tiles_detail;
  uint32_t own[S.access] = {};
  each_access<S>(
      p, [&](int64_t index) { add_maxima<S>(own, load_x<S>(p.x.data, offset_of(p.x, index))); });
  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < S.access; ++i) most = max(most, own[i]);
  most = __reduce_max_sync(~0u, most);
  __shared__ uint32_t warps[kQuantThreads / kWarp];
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = most;
  __syncthreads();
  most = largest_of(warps, kQuantThreads / kWarp);
  if (threadIdx.x == 0) p.parts[blockIdx.x] = most;
}

/// Writes the codes of a tensor.
template <QuantTilesTraits S>
__global__ void __launch_bounds__(kQuantThreads)
    quantize_tensor_codes(const __grid_constant__ QuantTilesParams p) {
  using namespace quant_tiles_detail;
  const float scale = scale_of_bits(largest_of(p.parts, p.num_parts), p);
  float factors[S.access];
#pragma unroll
  for (int i = 0; i < S.access; ++i) factors[i] = DeviceMath::reciprocal(scale);
  if (blockIdx.x == 0 && threadIdx.x == 0) store_scale<S>(p, 0, scale);
  each_access<S>(p, [&](int64_t index) {
    store_q<S>(p.q.data, offset_of(p.q, index), load_x<S>(p.x.data, offset_of(p.x, index)),
               factors);
  });
}

}  // namespace dlblas::quant
