// linear_residual of bf16 compiled for AVX-512 with AMX (tiles of BF16).
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
#include "cpu/gemm/code.hpp"
#include "ops/gemm/linear_residual/cpu/linear_residual_simd.hpp"

namespace dlblas::avx512 {

constinit const GemmCode kLinearResidualAmx = gemm_code<ProductEpilogue<LinearResidual>>();

}  // namespace dlblas::avx512
