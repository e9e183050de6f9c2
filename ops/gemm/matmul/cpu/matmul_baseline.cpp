// matmul compiled for every CPU: 4 lanes by vector extensions (SSE2, NEON).
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
// Read next: cpu/gemm/code.hpp, ops/gemm/matmul/cpu/matmul_epilogue_simd.hpp.
#include "cpu/gemm/code.hpp"
#include "ops/gemm/matmul/cpu/matmul_epilogue_simd.hpp"

namespace dlblas::baseline {

constinit const GemmCode kMatmulCode = gemm_code<MatmulEpilogue>();

}  // namespace dlblas::baseline
