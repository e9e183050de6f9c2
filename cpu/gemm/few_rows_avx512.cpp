// Products of few rows compiled for AVX-512 (F, BW, VL, DQ): 16 lanes, 32 registers.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
// Read next: cpu/gemm/few_rows.hpp.
#include "cpu/gemm/few_rows.hpp"

namespace dlblas::avx512 {

constinit const GemmRows kRows = {row, pack_rows};

}  // namespace dlblas::avx512
