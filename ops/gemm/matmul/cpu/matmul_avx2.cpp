// matmul compiled for AVX2 with FMA and F16C: 8 lanes, 16 registers.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
// Read next: cpu/gemm/code.hpp, ops/gemm/matmul/cpu/matmul_epilogue_simd.hpp.
#include "cpu/gemm/code.hpp"
#include "ops/gemm/matmul/cpu/matmul_epilogue_simd.hpp"

namespace dlblas::avx2 {

constinit const GemmCode kMatmulCode = gemm_code<MatmulEpilogue>();

}  // namespace dlblas::avx2
