// matmul of bf16 compiled for AVX-512 with AMX (tiles of BF16).
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
// Read next: cpu/gemm/code.hpp, ops/gemm/matmul/cpu/matmul_epilogue_simd.hpp.
#include "cpu/gemm/code.hpp"
#include "ops/gemm/matmul/cpu/matmul_epilogue_simd.hpp"

namespace dlblas::avx512 {

constinit const GemmCode kMatmulAmx = gemm_code<MatmulEpilogue>();

}  // namespace dlblas::avx512
