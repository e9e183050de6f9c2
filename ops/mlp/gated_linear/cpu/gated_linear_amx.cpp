// gated_linear of bf16 compiled for AVX-512 with AMX (tiles of BF16).
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
// Read next: cpu/gemm/code.hpp, gated_linear_simd.hpp.
#include "cpu/gemm/code.hpp"
#include "ops/mlp/gated_linear/cpu/gated_linear_simd.hpp"

namespace dlblas::avx512 {

constinit const GemmCode kGatedLinearAmx = gemm_code<GatedLinearEpilogue>();

}  // namespace dlblas::avx512
