// linear_rope's pass over sums, compiled for AVX-512: 16 lanes, 32 registers.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
#include "cpu/gemm/product_finish.hpp"
#include "ops/mlp/linear_rope/cpu/linear_rope_code.hpp"
#include "ops/mlp/linear_rope/linear_rope_product.hpp"

namespace dlblas::avx512 {

constinit const ProductCode kLinearRopeCode = finish_code<mlp::LinearRope<NoMath>>();

}  // namespace dlblas::avx512
