// The loops of matrix products that each instruction set's objects define once, for the epilogues
// of all operators: blocks, few rows and packing. No inline functions here, see job.hpp.
// Read next: blocks_avx512.cpp, few_rows_avx512.cpp, cpu/gemm/run.hpp (what runs them).
#pragma once

#include "cpu/gemm/job.hpp"

#define DLBLAS_GEMM_LOOPS                                                                     \
  extern const GemmBlocks kBlocks, kPanelBlocks;                                              \
  extern const GemmRows kRows;                                                                \
  /* One product of at most kSmallColumns, for an epilogue with store_tile, see small.hpp. */ \
  void small(const GemmJob&, float* room);                                                    \
  /* Packs `lanes` × `depth` elements into panels of `width`, see pack.hpp. */               \
  void pack_panels(DType type, const PackSource& s, int64_t lanes, int64_t depth, int width,  \
                   float* to);

namespace dlblas::baseline {
DLBLAS_GEMM_LOOPS
}
namespace dlblas::avx2 {
DLBLAS_GEMM_LOOPS
}
namespace dlblas::avx512 {
DLBLAS_GEMM_LOOPS
/// bf16 on a unit.
extern const GemmBlocks kBf16Blocks, kAmxBlocks, kBf16PanelBlocks, kAmxPanelBlocks;
extern const GemmRows kBf16Rows, kAmxRows;
}  // namespace dlblas::avx512
#undef DLBLAS_GEMM_LOOPS
