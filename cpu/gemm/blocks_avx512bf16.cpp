// Products of bf16, in blocks and of few rows, compiled for AVX-512 with AVX512_BF16.
// Everything but the tables below has internal linkage: see cpu/simd.hpp for why.
// Read next: cpu/gemm/pairs.hpp, cpu/gemm/pair_rows.hpp.
#include "cpu/gemm/pair_rows.hpp"

namespace dlblas::avx512 {

constinit const GemmBlocks kBf16Blocks = blocks_of_core<PairCore<Bf16Terms>>();
constinit const GemmBlocks kBf16PanelBlocks = blocks_of_core<PanelPairCore>();
constinit const GemmRows kBf16Rows = {row_of_pairs, pack_pair_rows};

}  // namespace dlblas::avx512
