// Widens a tile of V or K in shared memory from f8 to 16 bits, exactly, by three warps of the WGMMA
// kernel while the others multiply. In: codes as the copy engine writes them, rows of 128 bytes (or
// of 64, if a head has no more) in the swizzle of that width. Out: columns of 64 elements, rows of
// 128 bytes in the 128-byte swizzle, along N. Read next: attention_wgmma.cuh, device/tma.cuh (the
// swizzle).
#pragma once

#include "device/shared.cuh"
#include "ops/attention/cuda/attention_cuda_config.hpp"
#include "ops/attention/cuda/f8_pair.cuh"

namespace dlblas::attention {

inline constexpr int kWideners = 3;  // warps

/// Warp `warp` of kWideners. A lane has 16 elements of one of eight rows; eight lanes cover rows r
/// and r ^ 5, so that reads and writes hit all banks.
/// `From`, `To`: Panels of both.
template <AttentionTraits S, AttentionWgmmaConfig C, typename From, typename To>
__device__ __forceinline__ void widen_tile(uint32_t codes, uint32_t to, int32_t warp) {
  constexpr int kRow = From::kRow, kColumns = To::kCount;
  constexpr int kKeys = C.keys;
  // Groups of eight keys whose loads are in flight together, in 56 registers, or in 32.
  constexpr int kEights = kColumns > 2 || C.groups == 3 ? 1 : 2;
  static_assert(kKeys / 8 % kEights == 0);
  const uint32_t lane = threadIdx.x % 32, chunk = lane % 4;
  const uint32_t row = lane / 8 ^ (lane & 4 ? 5 : 0);
  const uint32_t from = row * kRow + ((chunk ^ (kRow == 128 ? row : row / 2)) << 4);
  const uint32_t at = row * 128 + ((2 * chunk ^ row) << 4);
#pragma unroll 1
  for (int32_t first = warp * kEights; first < kKeys / 8; first += kWideners * kEights) {
    uint32_t words[kEights * kColumns][4];
#pragma unroll
    for (int i = 0; i < kEights * kColumns; ++i) {
      const int c = i % kColumns;
      load_shared(words[i], codes + c / 2 * kKeys * kRow + (first + i / kColumns) * 8 * kRow +
                                (from ^ c % 2 * 64));
    }
#pragma unroll
    for (int i = 0; i < kEights * kColumns; ++i) {
      const uint32_t tile = to + i % kColumns * kKeys * 128 + (first + i / kColumns) * 1024;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t wide[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          wide[j] = widen_pair<S.cache, S.type>(words[i][2 * half + j / 2] >> j % 2 * 16);
        store_shared(tile + (at ^ half * 16), wide);
      }
    }
  }
}

}  // namespace dlblas::attention
