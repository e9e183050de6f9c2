// What host code and the AMX object of the products of codes share: one call, and the code of each
// kind. No inline function may appear here, see scaled_config.hpp. Read next:
// ops/gemm/scaled/scaled_amx.cpp, scaled_tiles.cpp.
#pragma once

#include "cpu/gemm/job.hpp"
#include "ops/gemm/scaled/scaled_config.hpp"

namespace dlblas::gemm::scaled {

/// A call at the epilogue. `turned`: the product is that of b's columns with a's rows, whose tiles
/// are columns of the result.
struct TilesCall {
  ScaledJob job;
  bool turned;
  /// Of blocks: a's scales, [group][pitch], with room for whole tiles of rows.
  const float* a_scales;
  int64_t pitch;
};
/// Rows that tiles may have beyond the call's: the table of scales has room for them.
inline constexpr int64_t kTilesRows = 64;

/// Order of sums: i8 is exact in each span, of e4m3 the unit adds up 32 terms, and blocks 128.
inline constexpr GemmSumOrder kI8Tiles = {64, 64, 65536};
inline constexpr GemmSumOrder kBlockTiles = {128, 128, 8192};

}  // namespace dlblas::gemm::scaled

namespace dlblas::avx512 {
extern const GemmCode kI8Amx, kI8BlockAmx, kE4m3Amx, kE4m3BlockAmx, kE5m2BlockAmx;
}
