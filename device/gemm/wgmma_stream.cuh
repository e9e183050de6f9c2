// How blocks hand each other sums of a tile in stream-K: through global memory, in the layout of
// the accumulators, a thread's four at a time, and from there through the owner's ring, like any
// other stage. In: sums in registers. Out: the same sums in the ring of the block that adds them.
//   giver   its warpgroups write their sums, then count themselves in GemmStreamCall::given
//   owner   the copying thread waits for the count, then copies; the warpgroups wait for stages
// Read next: stream_config.hpp (which block gives, and why no wait is circular), wgmma_ring.cuh.
#pragma once

#include "device/bulk_copy.cuh"
#include "device/gemm/wgmma_epilogue.cuh"
#include "device/gemm/wgmma_ring.cuh"

namespace dlblas {

/// How a tile's sums are cut into stages of the ring.
template <GemmTraits S, GemmWgmmaConfig C>
struct GemmGiven {
  static constexpr int kRowBytes = C.tile_threads() * 16;  // four sums of every thread
  static constexpr int kRows = C.sums() / 4;
  static constexpr int kFit = GemmRing<S, C>::kStageBytes / kRowBytes;
  static constexpr int kRowsPerStage = kFit < kRows ? kFit : kRows;
  static_assert(kRowsPerStage > 0);
  __device__ static __forceinline__ char* sums_of(const GemmWgmmaCall& call, uint32_t block) {
    return reinterpret_cast<char*>(call.stream.sums) + int64_t{block} * (kRows * kRowBytes);
  }
};

/// Called by a warpgroup: its sums become visible to the device, then counted. Copies are of the
/// asynchronous proxy, hence its fence.
template <GemmTraits S, GemmWgmmaConfig C>
__device__ __forceinline__ void give(const float (&d)[C.row_blocks()][C.block_n / 2],
                                     const GemmWgmmaCall& call, int32_t group) {
  using Given = GemmGiven<S, C>;
  constexpr int kEach = C.block_n / 2;
  const uint32_t thread = (threadIdx.x - 128) % C.tile_threads();
  char* const to = Given::sums_of(call, blockIdx.x) + thread * 16;
#pragma unroll
  for (int i = 0; i < C.sums(); i += 4) {
    const float* const sums = &d[i / kEach][i % kEach];
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + i / 4 * Given::kRowBytes),
                 "f"(sums[0]), "f"(sums[1]), "f"(sums[2]), "f"(sums[3])
                 : "memory");
  }
  asm volatile("fence.proxy.async.global;" ::: "memory");
  gemm_warpgroup_sync(group);
  if (threadIdx.x % 128 == 0)
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(call.stream.given + blockIdx.x)
                 : "memory");
}

/// Called by the copying thread after the stages of a part: what others give to it. All blocks of a
/// cluster have as many of these stages, so each stage is released as often as under multicast.
template <GemmTraits S, GemmWgmmaConfig C>
__device__ __forceinline__ void copy_given(const GemmWgmmaCall& call, const GemmRing<S, C>& ring,
                                           RingPlace<C.stages>& at, int32_t givers) {
  using Given = GemmGiven<S, C>;
#pragma unroll 1
  for (int32_t g = 1; g <= givers; ++g) {
    const uint32_t block = blockIdx.x - static_cast<uint32_t>(g * C.cluster);
    asm volatile(
        "{\n\t"
        ".reg .pred p;\n\t"
        ".reg .u32 now;\n\t"
        "again:\n\t"
        "ld.acquire.gpu.global.u32 now, [%0];\n\t"
        "setp.lt.u32 p, now, %1;\n\t"
        "@p bra again;\n\t"
        "fence.proxy.async.global;\n\t"
        "}" ::"l"(call.stream.given + block),
        "n"(C.tile_threads() / 128)
        : "memory");
    const char* from = Given::sums_of(call, block);
#pragma unroll 1
    for (int row = 0; row < Given::kRows; row += Given::kRowsPerStage, at.advance()) {
      const int left = Given::kRows - row;
      const uint32_t bytes =
          (left < Given::kRowsPerStage ? left : Given::kRowsPerStage) * Given::kRowBytes;
      ring.empty[at.stage].wait(at.parity ^ 1);
      ring.full[at.stage].arrive_expect_tx(bytes);
      bulk_load_once(shared_address(ring.tiles + at.stage * GemmRing<S, C>::kStageBytes), from,
                     bytes, ring.full[at.stage]);
      from += bytes;
    }
  }
}

/// Adds what others gave, in the order of K; called by the warpgroups that multiplied the tile.
template <GemmTraits S, GemmWgmmaConfig C>
__device__ __forceinline__ void add_given(float (&d)[C.row_blocks()][C.block_n / 2],
                                          const GemmRing<S, C>& ring, RingPlace<C.stages>& at,
                                          int32_t givers) {
  using Given = GemmGiven<S, C>;
  constexpr int kEach = C.block_n / 2;
  const unsigned char* const mine = ring.tiles + (threadIdx.x - 128) % C.tile_threads() * 16;
#pragma unroll 1
  for (int32_t g = 0; g < givers; ++g) {
#pragma unroll
    for (int row = 0; row < Given::kRows; ++row) {
      const int in_stage = row % Given::kRowsPerStage;
      if (in_stage == 0) ring.full[at.stage].wait(at.parity);
      const float4 v = *reinterpret_cast<const float4*>(
          mine + at.stage * GemmRing<S, C>::kStageBytes + in_stage * Given::kRowBytes);
      float* const sums = &d[row * 4 / kEach][row * 4 % kEach];
      sums[0] += v.x, sums[1] += v.y, sums[2] += v.z, sums[3] += v.w;
      if (in_stage == Given::kRowsPerStage - 1 || row == Given::kRows - 1) {
        __syncwarp();  // all lanes have read
        ring.release(at.stage);
        at.advance();
      }
    }
  }
}

}  // namespace dlblas
