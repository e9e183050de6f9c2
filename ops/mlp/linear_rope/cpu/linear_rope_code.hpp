// linear_rope's pass over sums, for each instruction set. Read next: cpu/gemm/product_finish.hpp.
#pragma once

#include "cpu/gemm/product.hpp"

namespace dlblas::baseline {
extern const ProductCode kLinearRopeCode;
}
namespace dlblas::avx2 {
extern const ProductCode kLinearRopeCode;
}
namespace dlblas::avx512 {
extern const ProductCode kLinearRopeCode;
}
