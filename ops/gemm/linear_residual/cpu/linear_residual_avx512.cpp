// linear_residual compiled for AVX-512: 16 lanes, 32 registers.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
#include "cpu/gemm/product_code.hpp"
#include "ops/gemm/linear_residual/cpu/linear_residual_simd.hpp"

namespace dlblas::avx512 {

constinit const ProductCode kLinearResidualCode = product_code<LinearResidual>();

}  // namespace dlblas::avx512
