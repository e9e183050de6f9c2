// Scales over tiles that are read once: a tile stays in registers (128 by 128 elements per block)
// or in shared memory while its scale is found. If a scale covers more than a block holds, the
// blocks of a cooperative grid synchronise: for a channel, those that share its columns, through
// maxima and a counter in memory; for a tensor, all of them, and what shared memory could not keep
// is read again, the last tile first, since caches still hold it. Maxima are taken on bits, two
// 16-bit elements at a time, so their order does not change the results. In: x [T, K], rows at one
// stride, accesses of 4 to 16 bytes. Out: codes q [T, K] and scales, with the same bits as
// tiles.cuh.
// Flow: call > validate > select > compile > [launch].  Read next: tiles_config.hpp, tiles.cuh.
#pragma once

#include "device/cp_async.cuh"
#include "device/grid.cuh"
#include "ops/quant/tiles.cuh"

namespace dlblas::quant {

namespace quant_held_detail {

using quant_tiles_detail::Loaded;

/// The larger magnitudes, element by element: an element's bits without its sign, which order as
/// the values do, NaN last.
template <DType T>
__device__ inline uint32_t larger_magnitudes(uint32_t most, uint32_t word) {
  if constexpr (size_of(T) == 4) {
    return max(most, word & 0x7fffffffu);
  } else {
#if __CUDA_ARCH__ >= 900
    uint32_t larger;
    asm("max.u16x2 %0, %1, %2;" : "=r"(larger) : "r"(most), "r"(word & 0x7fff7fffu));
    return larger;
#else
    return max(most & 0xffff0000u, word & 0x7fff0000u) | max(most & 0xffffu, word & 0x7fffu);
#endif
  }
}
/// The magnitude of element `i` of an access, as bits of f32.
template <QuantTilesTraits S>
__device__ inline uint32_t magnitude_of(const Loaded<S>& most, int i) {
  const FloatPair pair = most.pair(i / 2);
  return bits_of_float(i % 2 == 0 ? pair.low : pair.high);
}
/// The largest magnitude of an access, as bits of f32.
template <QuantTilesTraits S>
__device__ inline uint32_t largest_in(const Loaded<S>& most) {
  uint32_t words = 0;
#pragma unroll
  for (const uint32_t word : most.words) words = larger_magnitudes<S.type>(words, word);
  if constexpr (size_of(S.type) == 4) return words;
  Vec<S.type, 2> both;
  both.words[0] = words;
  return max(bits_of_float(both.pair(0).low), bits_of_float(both.pair(0).high));
}

template <QuantTilesTraits S>
__device__ inline void add_magnitudes(Loaded<S>& most, const Loaded<S>& x) {
#pragma unroll
  for (int i = 0; i < Loaded<S>::kWords; ++i)
    most.words[i] = larger_magnitudes<S.type>(most.words[i], x.words[i]);
}

template <QuantTilesTraits S>
__device__ inline void store_codes(uint8_t* to, const Loaded<S>& x,
                                   const float (&factors)[S.access]) {
  Values<S.access> v = values(x);
#pragma unroll
  for (int i = 0; i < S.access; ++i) v.v[i] *= factors[i];
  store_vec<S.q_type, S.access, S.access>(to, 0, rounded<S.q_type>(v));
}

/// Returns the largest `most` of a block's threads to each of them. `warps`: one word of shared
/// memory per warp.
template <int kThreads>
__device__ inline uint32_t largest_of_block(uint32_t most, uint32_t* warps) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  most = __reduce_max_sync(~0u, most);
  if (lane == 0) warps[threadIdx.x / kWarp] = most;
  __syncthreads();
  return __reduce_max_sync(~0u, lane < kThreads / kWarp ? warps[lane] : 0);
}

__device__ inline float scale_of(uint32_t most, const QuantHeldParams& p) {
  const float plain = quant::QuantScale<DeviceMath>::of(float_from_bits(most), p.largest);
  return quant::QuantPowers::of(plain, static_cast<float>(p.powers));
}

/// Walks the tiles of one block of a grid, which are numbered down the rows (`part`) of each 128
/// columns (`side`).
struct TileWalk {
  int side, part;
  __device__ explicit TileWalk(const QuantHeldParams& p, int tile)
      : side(tile / p.down), part(tile - side * p.down) {}
  __device__ void move(const QuantHeldParams& p, int step_side, int step_part) {
    side += step_side, part += step_part;
    if (part >= p.down) part -= p.down, ++side;
    if (part < 0) part += p.down, --side;
  }
};

/// A ring buffer of tiles in shared memory. Each thread reads only what it has copied itself, so
/// waiting for its own copies is enough.
template <QuantTilesTraits S, QuantGridConfig C>
class TileRing {
 public:
  static constexpr int kLanes = quant_held_lanes(S), kStep = C.threads / kLanes;
  static constexpr int kRows = kStep * C.loads;
  static constexpr uint32_t kSlot = C.threads * C.loads * 16;

  __device__ TileRing(const QuantHeldParams& p, const void* memory)
      : p_(p),
        memory_(shared_address(memory) + threadIdx.x * 16),
        column_(static_cast<int>(threadIdx.x) % kLanes * S.access),
        row_(static_cast<int>(threadIdx.x) / kLanes) {}

  /// Issues the copies of the tile; the caller commits. If not `there`, the slot is zero-filled.
  __device__ void load(int slot, const TileWalk& tile, bool there) const {
    const int64_t first = first_row(tile), column = first_column(tile);
    const int rows = rows_of(there, first, column);
    const auto* from =
        static_cast<const uint8_t*>(p_.x) + (first * p_.x_row + column) * size_of(S.type);
    uint32_t to = memory_ + static_cast<uint32_t>(slot) * kSlot;
    int64_t left = p_.total - (first * p_.width + column);  // of a tensor without gaps
#pragma unroll
    for (int i = 0; i < C.loads; ++i) {
      cp_async(to, from, i * kStep < rows && is_element(left) ? 16 : 0);
      to += C.threads * 16, from += kStep * p_.x_row * size_of(S.type), left -= kStep * p_.width;
    }
  }
  __device__ Loaded<S> get(int slot, int i) const {
    Loaded<S> x;
    load_shared(x.words, memory_ + static_cast<uint32_t>(slot) * kSlot + i * C.threads * 16);
    return x;
  }
  __device__ void add(int slot, Loaded<S>& most) const {
#pragma unroll
    for (int i = 0; i < C.loads; ++i) add_magnitudes<S>(most, get(slot, i));
  }
  __device__ void store(int slot, const TileWalk& tile, const float (&factors)[S.access]) const {
    const int64_t first = first_row(tile), column = first_column(tile);
    const int rows = rows_of(true, first, column);
    auto* to = static_cast<uint8_t*>(p_.q) + (first * p_.q_row + column);
    int64_t left = p_.total - (first * p_.width + column);
#pragma unroll
    for (int i = 0; i < C.loads; ++i) {
      if (i * kStep < rows && is_element(left)) store_codes<S>(to, get(slot, i), factors);
      to += kStep * p_.q_row, left -= kStep * p_.width;
    }
  }
  /// This thread's first column in a tile.
  __device__ int column() const { return column_; }

 private:
  __device__ int64_t first_row(const TileWalk& tile) const {
    return int64_t{tile.part} * kRows + row_;
  }
  __device__ int64_t first_column(const TileWalk& tile) const {
    return int64_t{tile.side} * kQuantBlock + column_;
  }

  /// Rows that exist, from this thread's first one on.
  __device__ int rows_of(bool there, int64_t first, int64_t column) const {
    return there && column < p_.width ? static_cast<int>(min(p_.rows - first, int64_t{kRows})) : 0;
  }
  __device__ static bool is_element(int64_t left) {
    return S.tile != QuantTile::kTensor || left > 0;
  }

  const QuantHeldParams& p_;
  uint32_t memory_;
  int column_, row_;
};

/// Synchronises a channel's blocks: contributes a column's magnitude, waits for all blocks that
/// share the column, and returns the largest. Called by all lanes of a warp, one column each.
__device__ inline uint32_t meet(const QuantHeldParams& p, int side, int64_t column, bool inside,
                                uint32_t most) {
  constexpr uint32_t kWarps = kQuantBlock / kWarp;
  uint32_t* const arrived = p.arrived + side;
  if (inside) atomicMax(p.maxima + column, most);
  __syncwarp();
  if (threadIdx.x % kWarp == 0)
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
  const uint32_t all = kWarps * static_cast<uint32_t>(p.down);
  asm volatile(
      "{\n\t"
      ".reg .pred p;\n\t"
      ".reg .u32 now;\n\t"
      "again:\n\t"
      "ld.acquire.gpu.u32 now, [%0];\n\t"
      "setp.lt.u32 p, now, %1;\n\t"
      "@p bra again;\n\t"
      "}" ::"l"(arrived),
      "r"(all)
      : "memory");
  __syncwarp();
  if (inside)
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(most) : "l"(p.maxima + column) : "memory");
  return most;
}

}  // namespace quant_held_detail

/// 128 rows by 128 columns per block, in registers; issues all loads before waiting for the first.
template <QuantTilesTraits S, QuantRegistersConfig C>
__global__ void __launch_bounds__(C.threads, C.blocks)
    quantize_registers(const __grid_constant__ QuantHeldParams p) {
  using namespace quant_held_detail;
  constexpr int kLanes = quant_held_lanes(S), kStep = C.threads / kLanes;
  constexpr int kLoads = kQuantBlock / kStep, kBytes = S.access * size_of(S.type);
  const int side = static_cast<int>(blockIdx.x % static_cast<uint32_t>(p.across));
  const int down = static_cast<int>(blockIdx.x / static_cast<uint32_t>(p.across));
  const int64_t first = int64_t{down} * kQuantBlock + static_cast<int>(threadIdx.x) / kLanes;
  const int64_t column =
      int64_t{side} * kQuantBlock + static_cast<int>(threadIdx.x) % kLanes * S.access;
  const int rows =
      column < p.width ? static_cast<int>(min(p.rows - first, int64_t{kQuantBlock})) : 0;
  const auto* const from =
      static_cast<const uint8_t*>(p.x) + (first * p.x_row + column) * size_of(S.type);
  Loaded<S> x[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    x[i] = Loaded<S>::zero();
    if (i * kStep < rows) x[i] = load_vec<S.type, S.access, kBytes>(from, i * kStep * p.x_row);
  }
  Loaded<S> own = Loaded<S>::zero();
#pragma unroll
  for (int i = 0; i < kLoads; ++i) add_magnitudes<S>(own, x[i]);
  __shared__ uint32_t warps[C.threads / kWarp];
  const float scale = scale_of(largest_of_block<C.threads>(largest_in<S>(own), warps), p);
  if (threadIdx.x == 0)
    static_cast<float*>(p.scale)[down * p.scale_row + side * p.scale_column] = scale;
  float factors[S.access];
#pragma unroll
  for (float& factor : factors) factor = DeviceMath::reciprocal(scale);
  auto* const to = static_cast<uint8_t*>(p.q) + (first * p.q_row + column);
#pragma unroll
  for (int i = 0; i < kLoads; ++i)
    if (i * kStep < rows) store_codes<S>(to + i * kStep * p.q_row, x[i], factors);
}

/// One scale per column. Needs a cooperative launch, of at least as many blocks as share a column:
/// these wait for each other.
template <QuantTilesTraits S, QuantGridConfig C>
__global__ void __launch_bounds__(C.threads, C.blocks)
    quantize_channels(const __grid_constant__ QuantHeldParams p) {
  using namespace quant_held_detail;
  using Ring = TileRing<S, C>;
  constexpr int kWarps = C.threads / kWarp;
  extern __shared__ __align__(16) unsigned char tiles[];
  __shared__ alignas(16) uint32_t partial[kWarps][kQuantBlock];
  __shared__ alignas(16) float factors_of[kQuantBlock];
  const Ring ring(p, tiles);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const int grid = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  const int step_side = grid / p.down, step_part = grid - step_side * p.down;
  const int count = (p.tiles - block + grid - 1) / grid;
  TileWalk now(p, block), next = now;
  int asked = 0;
  for (; asked < C.stages; ++asked) {
    ring.load(asked, next, asked < count);
    cp_async_commit();
    next.move(p, step_side, step_part);
  }
  if (p.down > 1) {  // behind the first loads
    const int64_t words = p.width + p.across;
    for (int64_t i = int64_t{block} * C.threads + thread; i < words; i += int64_t{grid} * C.threads)
      p.maxima[i] = 0;
    __syncthreads();
    if (warp == 0) grid_sync(lane);
    __syncthreads();
  }
  int slot = 0;
  for (int i = 0; i < count; ++i) {
    cp_async_wait<C.stages - 1>();
    Loaded<S> own = Loaded<S>::zero();
    ring.add(slot, own);
#pragma unroll
    for (int lanes = Ring::kLanes; lanes < kWarp; lanes *= 2) {
      Loaded<S> other;
#pragma unroll
      for (int w = 0; w < Loaded<S>::kWords; ++w)
        other.words[w] = __shfl_xor_sync(~0u, own.words[w], lanes);
      add_magnitudes<S>(own, other);
    }
    if (lane < Ring::kLanes) {
#pragma unroll
      for (int e = 0; e < S.access; ++e) partial[warp][ring.column() + e] = magnitude_of<S>(own, e);
    }
    __syncthreads();
    if (thread < kQuantBlock) {
      uint32_t most = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) most = max(most, partial[w][thread]);
      const int64_t column = int64_t{now.side} * kQuantBlock + thread;
      const bool inside = column < p.width;
      if (p.down > 1) most = meet(p, now.side, column, inside, most);
      const float scale = scale_of(most, p);
      factors_of[thread] = DeviceMath::reciprocal(scale);
      if (inside && now.part == 0) static_cast<float*>(p.scale)[column * p.scale_column] = scale;
    }
    __syncthreads();
    float factors[S.access];
#pragma unroll
    for (int e = 0; e < S.access; ++e) factors[e] = factors_of[ring.column() + e];
    ring.store(slot, now, factors);
    ring.load(slot, next, asked++ < count);
    cp_async_commit();
    next.move(p, step_side, step_part), now.move(p, step_side, step_part);
    slot = slot + 1 < C.stages ? slot + 1 : 0;
  }
}

/// One scale for all of x. Needs a cooperative launch. Each block's last tiles stay in shared
/// memory; the others are read again in reverse order.
template <QuantTilesTraits S, QuantGridConfig C>
__global__ void __launch_bounds__(C.threads, C.blocks)
    quantize_whole(const __grid_constant__ QuantHeldParams p) {
  using namespace quant_held_detail;
  extern __shared__ __align__(16) unsigned char tiles[];
  __shared__ uint32_t warps[C.threads / kWarp];
  const TileRing<S, C> ring(p, tiles);
  const int grid = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  const int step_side = grid / p.down, step_part = grid - step_side * p.down;
  const int count = (p.tiles - block + grid - 1) / grid;
  TileWalk next(p, block), now = next;
  int asked = 0;
  for (; asked < C.stages; ++asked) {
    ring.load(asked, next, asked < count);
    cp_async_commit();
    next.move(p, step_side, step_part);
  }
  Loaded<S> own = Loaded<S>::zero();
  int slot = 0;
  for (int i = 0; i < count; ++i) {
    cp_async_wait<C.stages - 1>();
    ring.add(slot, own);
    if (asked < count) {  // else it stays
      ring.load(slot, next, true);
      next.move(p, step_side, step_part), ++asked;
    }
    cp_async_commit();
    if (i + 1 < count) now.move(p, step_side, step_part);
    slot = slot + 1 < C.stages ? slot + 1 : 0;
  }
  cp_async_wait<0>();
  uint32_t most = largest_of_block<C.threads>(largest_in<S>(own), warps);
  if (grid > 1) {
    if (threadIdx.x == 0) p.maxima[block] = most;
    if (threadIdx.x < kWarp) grid_sync(static_cast<int>(threadIdx.x));
    __syncthreads();
    most = quant_tiles_detail::largest_of(p.maxima, grid);
  }
  const float scale = scale_of(most, p);
  if (block == 0 && threadIdx.x == 0) *static_cast<float*>(p.scale) = scale;
  float factors[S.access];
#pragma unroll
  for (float& factor : factors) factor = DeviceMath::reciprocal(scale);
  TileWalk before = now;  // the next to be read again
  for (int i = 0; i < C.stages; ++i) before.move(p, -step_side, -step_part);
  int again = count - 1 - C.stages;
  for (int i = count - 1; i >= 0; --i) {
    slot = slot > 0 ? slot - 1 : C.stages - 1;
    cp_async_wait<C.stages - 1>();
    ring.store(slot, now, factors);
    if (again >= 0) {
      ring.load(slot, before, true);
      before.move(p, -step_side, -step_part), --again;
    }
    cp_async_commit();
    now.move(p, -step_side, -step_part);
  }
}

}  // namespace dlblas::quant
