// linear_rope's pass over sums, compiled for AVX2 with FMA and F16C: 8 lanes, 16 registers.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
#include "cpu/gemm/product_finish.hpp"
#include "ops/mlp/linear_rope/cpu/linear_rope_code.hpp"
#include "ops/mlp/linear_rope/linear_rope_product.hpp"

namespace dlblas::avx2 {

constinit const ProductCode kLinearRopeCode = finish_code<mlp::LinearRope<NoMath>>();

}  // namespace dlblas::avx2
