// linear_residual compiled for the baseline: 4 lanes.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
#include "cpu/gemm/product_code.hpp"
#include "ops/gemm/linear_residual/cpu/linear_residual_simd.hpp"

namespace dlblas::baseline {

constinit const ProductCode kLinearResidualCode = product_code<LinearResidual>();

}  // namespace dlblas::baseline
