// The tiles of a bucket of M. A Problem holds the bucket's end, calls have any number of rows down
// to the end of the previous bucket, and a tile that fills the last wave at one end may leave much
// of it idle at the other (H200: 1,073 × 4,096 × 14,336 took 1.42 times as long as cuBLAS with the
// tile of M = 1,536). In: a configuration for the bucket's end, the model. Out: up to three others
// with the same traits, each for calls of up to a number of rows. All kernels are compiled
// together, and the launch chooses one. Flow: [select] and [compile] of matmul_wgmma_cuda.cpp,
// [launch]. Read
// next: matmul_wgmma_rows.cpp.
#pragma once

#include <cstdint>

#include "core/implementation.hpp"
#include "device/gemm/wgmma_config.hpp"

namespace dlblas::gemm {

/// A configuration in 32 bits: a kernel's state has little room.
struct PackedWgmma {
  std::uint32_t bits = 0;
  PackedWgmma() = default;
  explicit PackedWgmma(const GemmWgmmaConfig& c);
  GemmWgmmaConfig config() const;
};

struct FewerRows {
  static constexpr int kMax = 3;
  std::int32_t count = 0;
  std::int32_t rows[kMax] = {};  // at most, in descending order
  PackedWgmma tiles[kMax];

  GemmWgmmaConfig config(int i) const { return tiles[i].config(); }
  /// -1: the configuration for the bucket's end.
  int index_for(std::int64_t m) const {
    int found = -1;
    while (found + 1 < count && m <= rows[found + 1]) ++found;
    return found;
  }
};

using WgmmaModel = double (*)(const Problem&, const GemmWgmmaConfig&, const DeviceInfo&);

/// The configurations that, by the model, are faster than `config` for smaller M.
FewerRows for_fewer_rows(const Query& q, const GemmWgmmaConfig& config, WgmmaModel model);

}  // namespace dlblas::gemm
