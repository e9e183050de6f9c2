// linear_rope's pass over sums, compiled for the baseline: 4 lanes.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
#include "cpu/gemm/product_finish.hpp"
#include "ops/mlp/linear_rope/cpu/linear_rope_code.hpp"
#include "ops/mlp/linear_rope/linear_rope_product.hpp"

namespace dlblas::baseline {

constinit const ProductCode kLinearRopeCode = finish_code<mlp::LinearRope<NoMath>>();

}  // namespace dlblas::baseline
