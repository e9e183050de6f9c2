// Products of codes on AMX tiles, for the host code of several operators: the loops of
// cpu/gemm/run.hpp with the code for one kind of codes and scales. In: a call, as in
// scaled_config.hpp. Out: what its epilogue stores.
// Read next: scaled_tiles.cpp, cpu/gemm/run.hpp, scaled_amx.cpp.
#pragma once

#include "cpu/gemm/run.hpp"
#include "kernels/blocked_product.hpp"
#include "ops/gemm/scaled/scaled.hpp"

namespace dlblas::gemm::scaled {

/// A prepared product.
struct Tiles {
  GemmBlocked blocked;
  bool turned, blocks;
};
/// Sizes and kind of a product. `turned`: b's columns are contiguous along K, and the unit
/// multiplies b's columns by a's rows. Such columns are packed as they are, or not at all; the
/// other operand, which is smaller, is transposed.
struct TilesProduct {
  std::int64_t m, n, k;
  DType type;
  Scales scales;
  bool turned;
};

#if defined(DLBLAS_X86)
/// The table of knobs; it lives as long as the process.
const ConfigTable<CpuGemmConfig>& tiles_table();
const kernels::ProductLevel& tiles_level(DType type, Scales scales);
/// The best guess without measurement, not yet fitted to the sizes.
CpuGemmConfig tiles_config(const TilesProduct& p, int threads);
double tiles_ms(const Query& q, const TilesProduct& p);
Tiles prepare_tiles(const TilesProduct& p, const CpuGemmConfig& config, int threads);
/// Enough for products up to these sizes.
std::size_t workspace_bytes(const Tiles& s, std::int64_t m, std::int64_t n, std::int64_t k);
void run_tiles(const Tiles& s, const ScaledJob& job, const Context& context, void* workspace);
#endif

}  // namespace dlblas::gemm::scaled
