// gated_linear compiled for AVX-512: 16 lanes, 32 registers.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
// Read next: gated_linear_finish_simd.hpp.
#include "ops/mlp/gated_linear/cpu/gated_linear_finish_simd.hpp"

namespace dlblas::avx512 {

constinit const mlp::GatedLinearCode kGatedLinearCode = {gemm_code<GatedLinearEpilogue>(),
                                                         finish_rows};

}  // namespace dlblas::avx512
