// What the host code and the WGMMA kernels of sums over the rows of groups share: tiles, and the
// parameters of the step that places codes. block_k counts pairs of codes.
// Read next: grouped_depth_wgmma.cuh, grouped_depth_place.cuh.
#pragma once

#include "device/gemm/wgmma_groups_config.hpp"
#include "ops/gemm/grouped_block/grouped_block_config.hpp"

namespace dlblas::gemm {

inline constexpr GemmWgmmaConfig kGroupedDepthTiles[] = {
    {false, 128, 192, 64, 2, false, GemmShare::kNone, 1, 4, false, 8},
    {false, 128, 128, 64, 2, false, GemmShare::kNone, 1, 5, false, 8},
    {false, 64, 128, 64, 1, false, GemmShare::kNone, 1, 7, false, 8},
    {false, 64, 64, 64, 1, false, GemmShare::kNone, 1, 8, false, 8},
};
inline constexpr int kGroupedDepthCount = sizeof kGroupedDepthTiles / sizeof kGroupedDepthTiles[0];

constexpr int grouped_depth_bytes(int tile, int64_t groups) {
  const GemmWgmmaConfig& c = kGroupedDepthTiles[tile];
  return c.shared_bytes(true, 0) + c.stages * depth_scale_count(c) * 4 + group_table_bytes(groups);
}

/// Codes of `width` columns of `terms` terms, from any pitch to one of whole 16 bytes along terms.
struct PlaceCodes {
  const unsigned char* from;
  unsigned char* to;
  int64_t from_pitch, to_pitch;
  int64_t terms, width;
  bool along;  // columns are contiguous in `from`; else its rows, each of one term
};
/// Scales of `blocks` × `width`, at any strides, to rows of one block each.
struct PlaceScales {
  const float* from;
  float* to;
  int64_t from_block, from_column, to_pitch;
  int64_t blocks, width;
  bool in_fours;  // depth_scale_place
};
/// A thread block's share: of both terms and columns; of columns and blocks of scales.
inline constexpr int32_t kPlacedCodes = 128, kPlacedScales = 32, kPlaceThreads = 256;
/// Elements from block to block of placed scales: tiles end at most 191 columns behind the last.
constexpr int64_t placed_scale_pitch(int64_t width) {
  return (width + 191 + kPlacedCodes - 1) / kPlacedCodes * kPlacedCodes;
}

/// Thread blocks take the codes of a, of b, the scales of a, of b, in this order; `ends`: of each.
/// An operand without thread blocks stays where it is.
struct PlaceCall {
  PlaceCodes a, b;
  PlaceScales of_a, of_b;
  int64_t ends[4];
};

}  // namespace dlblas::gemm
