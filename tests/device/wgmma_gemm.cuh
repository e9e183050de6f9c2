// Test kernel: the smallest whole Hopper GEMM over the toolbox. One block a tile of 128 × width;
// one warpgroup's thread fills a ring by TMA, two warpgroups multiply 64 rows each.
// In: A [M, K] or [K, M], B [N, K] or [K, N], f16 or bf16. Out: D [M, N] f32.
// Numerics: f32 accumulation in the tensor cores' order. Edges of M, N and K are TMA's zeros.
// Driven by tests/cpp/test_device_toolbox.cpp.
#pragma once

#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "tests/device/toolbox_params.hpp"

namespace dlblas {

/// One block's shared memory: `stages` times A's tile and B's, then their barriers.
template <WgmmaTraits S>
struct WgmmaShared {
  unsigned char* tiles;
  Mbarrier* full;
  Mbarrier* empty;

  __device__ __forceinline__ explicit WgmmaShared(unsigned char* raw) {
    tiles = raw + (1024 - shared_address(raw) % 1024) % 1024;
    full = reinterpret_cast<Mbarrier*>(tiles + S.stages * wgmma_stage_bytes(S));
    empty = full + S.stages;
  }
  __device__ __forceinline__ unsigned char* a(uint32_t stage) const {
    return tiles + stage * wgmma_stage_bytes(S);
  }
  __device__ __forceinline__ unsigned char* b(uint32_t stage) const {
    return a(stage) + kWgmmaRows * 128;
  }
};

/// The copies of one stage. Along M or N a box is 64 wide, so such a tile is several boxes.
template <WgmmaTraits S>
__device__ __forceinline__ void load_stage(const WgmmaParams& p, const WgmmaShared<S>& shared,
                                           uint32_t stage, int32_t k) {
  Mbarrier& full = shared.full[stage];
  const int32_t row = static_cast<int32_t>(blockIdx.x) * kWgmmaRows;
  full.arrive_expect_tx(wgmma_stage_bytes(S));
  if constexpr (S.a_mn) {
    tma_load(shared.a(stage), p.a, full, Tile2{row, k});
    tma_load(shared.a(stage) + kWgmmaDepth * 128, p.a, full, Tile2{row + 64, k});
  } else {
    tma_load(shared.a(stage), p.a, full, Tile2{k, row});
  }
  if constexpr (S.b_mn) {
    for (int32_t n = 0; n < S.width; n += 64)
      tma_load(shared.b(stage) + n * 128, p.b, full, Tile2{n, k});
  } else {
    tma_load(shared.b(stage), p.b, full, Tile2{k, 0});
  }
}

template <WgmmaTraits S>
__device__ __forceinline__ void produce(const WgmmaParams& p, const WgmmaShared<S>& shared) {
  RingPlace<S.stages> at;
  for (int32_t k = 0; k < p.k; k += kWgmmaDepth, at.advance()) {
    shared.empty[at.stage].wait(at.parity ^ 1);
    load_stage<S>(p, shared, at.stage, k);
  }
}

/// One stage of K for the 64 rows of warpgroup `group`.
template <WgmmaTraits S>
__device__ __forceinline__ void multiply_stage(float (&d)[S.width / 2],
                                               const WgmmaShared<S>& shared, uint32_t stage,
                                               int32_t group, int32_t accumulate) {
  constexpr WgmmaInput kInput = S.bf16 ? WgmmaInput::kBF16 : WgmmaInput::kF16;
  constexpr WgmmaMajor kA = S.a_mn ? WgmmaMajor::kMN : WgmmaMajor::kK;
  constexpr WgmmaMajor kB = S.b_mn ? WgmmaMajor::kMN : WgmmaMajor::kK;
  // 64 rows of A are 64 · 128 bytes either way: whole rows, or one box along M.
  const unsigned char* rows = shared.a(stage) + group * 64 * 128;
  const uint64_t a = S.a_mn ? wgmma_tile_mn(rows, kWgmmaDepth * 128) : wgmma_tile_k(rows);
  const uint64_t b =
      S.b_mn ? wgmma_tile_mn(shared.b(stage), kWgmmaDepth * 128) : wgmma_tile_k(shared.b(stage));
  wgmma_fence();
#pragma unroll
  for (int32_t k = 0; k < kWgmmaDepth / 16; ++k)
    wgmma<S.width, kInput, kA, kB>(d, wgmma_advance(a, k * (S.a_mn ? 2048 : 32)),
                                   wgmma_advance(b, k * (S.b_mn ? 2048 : 32)), accumulate | k);
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_pin(d);
}

template <WgmmaTraits S>
__device__ __forceinline__ void consume(const WgmmaParams& p, const WgmmaShared<S>& shared,
                                        int32_t group) {
  const int32_t me = static_cast<int32_t>(threadIdx.x) % 128;
  float d[S.width / 2];
#pragma unroll
  for (float& value : d) value = 0;
  RingPlace<S.stages> at;
  for (int32_t k = 0; k < p.k; k += kWgmmaDepth, at.advance()) {
    shared.full[at.stage].wait(at.parity);
    multiply_stage<S>(d, shared, at.stage, group, k);
    if (me % 32 == 0) shared.empty[at.stage].arrive();
  }
  const int32_t first = static_cast<int32_t>(blockIdx.x) * kWgmmaRows + group * 64;
#pragma unroll
  for (int32_t i = 0; i < S.width / 2; ++i) {
    const int32_t row = first + wgmma_row(me, i), column = wgmma_column(me, i);
    if (row < p.m && column < p.n) p.d[int64_t(row) * p.n + column] = d[i];
  }
}

template <WgmmaTraits S>
__global__ void __launch_bounds__(384, 1) wgmma_gemm(const __grid_constant__ WgmmaParams p) {
  static_assert(!S.b_mn || S.width % 64 == 0, "along N a box is 64 wide");
  extern __shared__ unsigned char raw[];
  const WgmmaShared<S> shared(raw);
  if (threadIdx.x == 0) {
    for (int32_t s = 0; s < S.stages; ++s) {
      shared.full[s].init(1);
      shared.empty[s].init(8);  // a lane of each multiplying warp
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  const int32_t group = static_cast<int32_t>(threadIdx.x) / 128;
  if (group == 0) {
    release_registers<40>();
    if (threadIdx.x == 0) {
      tma_prefetch_map(p.a);
      tma_prefetch_map(p.b);
      produce<S>(p, shared);
    }
  } else {
    take_registers<232>();
    consume<S>(p, shared, group - 1);
  }
}

}  // namespace dlblas
