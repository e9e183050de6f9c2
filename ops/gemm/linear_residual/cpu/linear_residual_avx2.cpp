// linear_residual compiled for AVX2 with FMA and F16C: 8 lanes, 16 registers.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
#include "cpu/gemm/product_code.hpp"
#include "ops/gemm/linear_residual/cpu/linear_residual_simd.hpp"

namespace dlblas::avx2 {

constinit const ProductCode kLinearResidualCode = product_code<LinearResidual>();

}  // namespace dlblas::avx2
