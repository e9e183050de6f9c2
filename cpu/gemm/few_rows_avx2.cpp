// Products of few rows compiled for AVX2 with FMA and F16C: 8 lanes, 16 registers.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
// Read next: cpu/gemm/few_rows.hpp.
#include "cpu/gemm/few_rows.hpp"

namespace dlblas::avx2 {

constinit const GemmRows kRows = {row, pack_rows};

}  // namespace dlblas::avx2
