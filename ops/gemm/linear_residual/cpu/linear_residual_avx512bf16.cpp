// linear_residual of bf16 compiled for AVX-512 with AVX512_BF16.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
#include "cpu/gemm/code.hpp"
#include "ops/gemm/linear_residual/cpu/linear_residual_simd.hpp"

namespace dlblas::avx512 {

constinit const GemmCode kLinearResidualBf16 = gemm_code<ProductEpilogue<LinearResidual>>();

}  // namespace dlblas::avx512
