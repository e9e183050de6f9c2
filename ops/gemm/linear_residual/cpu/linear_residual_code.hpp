// linear_residual's code for each instruction set. Read next: linear_residual_simd.hpp.
#pragma once

#include "cpu/gemm/product.hpp"

namespace dlblas::baseline {
extern const ProductCode kLinearResidualCode;
}
namespace dlblas::avx2 {
extern const ProductCode kLinearResidualCode;
}
namespace dlblas::avx512 {
extern const ProductCode kLinearResidualCode;
extern const GemmCode kLinearResidualBf16, kLinearResidualAmx;
}  // namespace dlblas::avx512
