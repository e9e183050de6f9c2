// Products of few rows compiled for every CPU: 4 lanes by vector extensions (SSE2, NEON).
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
// Read next: cpu/gemm/few_rows.hpp.
#include "cpu/gemm/few_rows.hpp"

namespace dlblas::baseline {

constinit const GemmRows kRows = {row, pack_rows};

}  // namespace dlblas::baseline
