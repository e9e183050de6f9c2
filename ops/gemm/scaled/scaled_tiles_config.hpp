// What host code and the AMX object of the products of codes share: one call, and the code for each
// kind. No inline functions here, see scaled_config.hpp. Read next:
// ops/gemm/scaled/scaled_amx.cpp, scaled_tiles.cpp.
#pragma once

#include "cpu/gemm/job.hpp"
#include "ops/gemm/scaled/scaled_config.hpp"

namespace dlblas::gemm::scaled {

/// A call as the epilogue sees it. `turned`: the product is b's columns times a's rows, so rows of
/// a tile are columns of the result.
struct TilesCall {
  ScaledJob job;
  bool turned;
  /// With blocks: a's scales, [group][pitch], with room for whole tiles of rows.
  const float* a_scales;
  int64_t pitch;
};
/// Tiles may have more rows than the call: the table of scales is padded to a multiple of these.
inline constexpr int64_t kTilesRows = 64;

/// Order of sums: i8 is exact within a span; the unit sums 32 terms of e4m3, and 128 with blocks.
inline constexpr GemmSumOrder kI8Tiles = {64, 64, 65536};
inline constexpr GemmSumOrder kBlockTiles = {128, 128, 8192};

}  // namespace dlblas::gemm::scaled

namespace dlblas::avx512 {
extern const GemmCode kI8Amx, kI8BlockAmx, kE4m3Amx, kE4m3BlockAmx, kE5m2BlockAmx;
}
