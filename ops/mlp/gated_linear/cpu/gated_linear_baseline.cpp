// gated_linear compiled for the baseline: 4 lanes.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
// Read next: gated_linear_finish_simd.hpp.
#include "ops/mlp/gated_linear/cpu/gated_linear_finish_simd.hpp"

namespace dlblas::baseline {

constinit const mlp::GatedLinearCode kGatedLinearCode = {gemm_code<GatedLinearEpilogue>(),
                                                         finish_rows};

}  // namespace dlblas::baseline
