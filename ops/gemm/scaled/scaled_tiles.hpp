// Products of codes by AMX tiles, as host code of several operators runs them: the loops of
// cpu/gemm/run.hpp with the code of a kind of codes and scales. In: what a call is, as in
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
/// Sizes and kind of a product: as the unit multiplies it, which where b's columns lie along K is
/// b's columns by a's rows. Columns that lie so are packed as they are, or not at all; the other
/// operand, of which there is less, turns.
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
/// What is best unmeasured, not yet fitted to the sizes.
CpuGemmConfig tiles_config(const TilesProduct& p, int threads);
double tiles_ms(const Query& q, const TilesProduct& p);
Tiles prepare_tiles(const TilesProduct& p, const CpuGemmConfig& config, int threads);
/// For products up to these sizes.
std::size_t workspace_bytes(const Tiles& s, std::int64_t m, std::int64_t n, std::int64_t k);
void run_tiles(const Tiles& s, const ScaledJob& job, const Context& context, void* workspace);
#endif

}  // namespace dlblas::gemm::scaled
