// Places e4m3 codes along the rows, at a pitch that the copy engine takes: WGMMA reads 8-bit
// operands along their terms alone, which are the rows in sums over the rows of groups. Places
// scales so that one copy brings those of a stage. One read, one write.
// In: codes by rows or along them, at any pitch and address; scales at any strides. Out: the same
// codes along the rows, the same scales block by block.
// Flow: [launch], of grouped_depth_wgmma_cuda.cpp.  Read next: grouped_depth_wgmma.cuh.
#pragma once

#include "device/pdl.cuh"
#include "ops/gemm/grouped_block/grouped_depth_wgmma_config.hpp"

namespace dlblas::gemm {

/// Turns 4 × 4 bytes: byte i of word j becomes byte j of word i.
__device__ __forceinline__ void turn_bytes(uint32_t (&w)[4]) {
  const uint32_t low01 = __byte_perm(w[0], w[1], 0x5140), low23 = __byte_perm(w[2], w[3], 0x5140);
  const uint32_t high01 = __byte_perm(w[0], w[1], 0x7362), high23 = __byte_perm(w[2], w[3], 0x7362);
  w[0] = __byte_perm(low01, low23, 0x5410), w[1] = __byte_perm(low01, low23, 0x7632);
  w[2] = __byte_perm(high01, high23, 0x5410), w[3] = __byte_perm(high01, high23, 0x7632);
}

/// Codes `at` … `at` + 3 of `count`, those that exist. `words`: they are aligned to 4 bytes.
__device__ __forceinline__ uint32_t load_codes(const unsigned char* codes, int64_t at,
                                               int64_t count, bool words) {
  if (words && at + 4 <= count) return *reinterpret_cast<const uint32_t*>(codes + at);
  uint32_t word = 0;
  for (int i = 0; i < 4 && at + i < count; ++i) word |= uint32_t{codes[at + i]} << i * 8;
  return word;
}

/// A warp reads 128 codes of a row, four rows a lane, and writes 128 terms of a column. Word t of
/// column c lies at t ^ c / 4 of its row in shared memory, so that neither side meets a bank twice.
__device__ __forceinline__ void turn_codes(const PlaceCodes& x, int64_t term0, int64_t column0,
                                           bool aligned, uint32_t* tile) {
  constexpr int kWarps = kPlaceThreads / 32, kWords = kPlacedCodes / 4, kEach = kWords / kWarps;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t words[kEach][4] = {};
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int64_t term = term0 + (warp + i * kWarps) * 4 + r;
      if (term < x.terms)
        words[i][r] =
            load_codes(x.from + term * x.from_pitch, column0 + lane * 4, x.width, aligned);
    }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    turn_bytes(words[i]);
#pragma unroll
    for (int c = 0; c < 4; ++c)
      tile[(lane * 4 + c) * kWords + ((warp + i * kWarps) ^ lane)] = words[i][c];
  }
  __syncthreads();
#pragma unroll 4
  for (int c = warp; c < kPlacedCodes && column0 + c < x.width; c += kWarps)
    *reinterpret_cast<uint32_t*>(x.to + (column0 + c) * x.to_pitch + term0 + lane * 4) =
        tile[c * kWords + (lane ^ c / 4)];
}

/// A thread walks down a column's blocks, which may be adjacent; neighbours have adjacent columns.
/// Columns that there are not get zeros.
__device__ __forceinline__ void place_scales(const PlaceScales& x, int64_t block) {
  constexpr int kParts = kPlaceThreads / kPlacedCodes, kEach = kPlacedScales / kParts;
  const int64_t across = x.to_pitch / kPlacedCodes;
  const int64_t column = block % across * kPlacedCodes + threadIdx.x % kPlacedCodes;
  const int64_t first = block / across * kPlacedScales + threadIdx.x / kPlacedCodes * kEach;
  const int64_t place = x.in_fours ? depth_scale_place(column) : column;
#pragma unroll 4
  for (int64_t b = first; b < first + kEach && b < x.blocks; ++b)
    x.to[b * x.to_pitch + place] =
        column < x.width ? x.from[b * x.from_block + column * x.from_column] : 0;
}

__device__ __forceinline__ void place_codes(const PlaceCodes& x, int64_t block, uint32_t* tile) {
  const int64_t across = (x.width + kPlacedCodes - 1) / kPlacedCodes;
  const int64_t term0 = block / across * kPlacedCodes, column0 = block % across * kPlacedCodes;
  const bool aligned =
      ((reinterpret_cast<uint64_t>(x.from) | static_cast<uint64_t>(x.from_pitch)) & 3) == 0;
  if (!x.along) return turn_codes(x, term0, column0, aligned, tile);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int c = warp; c < kPlacedCodes && column0 + c < x.width; c += kPlaceThreads / 32)
    *reinterpret_cast<uint32_t*>(x.to + (column0 + c) * x.to_pitch + term0 + lane * 4) =
        load_codes(x.from + (column0 + c) * x.from_pitch, term0 + lane * 4, x.terms, aligned);
}

template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    grouped_depth_place(const __grid_constant__ PlaceCall p) {
  static_assert(kThreads == kPlaceThreads);
  __shared__ uint32_t tile[kPlacedCodes * kPlacedCodes / 4];
  wait_for_dependencies();
  launch_dependents();
  const int64_t block = blockIdx.x;
  if (block < p.ends[0])
    place_codes(p.a, block, tile);
  else if (block < p.ends[1])
    place_codes(p.b, block - p.ends[0], tile);
  else if (block < p.ends[2])
    place_scales(p.of_a, block - p.ends[1]);
  else
    place_scales(p.of_b, block - p.ends[2]);
}

}  // namespace dlblas::gemm
