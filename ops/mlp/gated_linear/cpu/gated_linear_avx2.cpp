// gated_linear compiled for AVX2 with FMA and F16C: 8 lanes, 16 registers.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
// Read next: gated_linear_finish_simd.hpp.
#include "ops/mlp/gated_linear/cpu/gated_linear_finish_simd.hpp"

namespace dlblas::avx2 {

constinit const mlp::GatedLinearCode kGatedLinearCode = {gemm_code<GatedLinearEpilogue>(),
                                                         finish_rows};

}  // namespace dlblas::avx2
