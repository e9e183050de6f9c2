// Products of bf16, in blocks and of few rows, compiled for AVX-512 with AMX (tiles of BF16).
// Everything but the tables below has internal linkage: see cpu/simd.hpp for why.
// Read next: cpu/gemm/pairs.hpp, cpu/gemm/tile_rows.hpp.
#include "cpu/gemm/tile_rows.hpp"

namespace dlblas::avx512 {

constinit const GemmBlocks kAmxBlocks = blocks_of_core<PairCore<Bf16Terms>>();
constinit const GemmBlocks kAmxPanelBlocks = blocks_of_core<PanelPairCore>();
constinit const GemmRows kAmxRows = {row_of_tiles, pack_tile_rows};

}  // namespace dlblas::avx512
