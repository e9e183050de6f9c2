// The oracle of add_rms_norm: h = round(x + residual), residual_out = h, y = rms_norm(h), any
// strides. The sum is made in f32 and rounded to x's dtype, as PyTorch does: exact to the bit in
// every implementation. From h on everything is f64. Read next: ops/norm/norm_ref.cpp.
#include "ops/norm/add_rms_norm/add_rms_norm_ref.hpp"

#include <cmath>
#include <vector>

#include "core/element.hpp"
#include "ops/norm/norm_ops.hpp"
#include "ops/norm/norm_ref.hpp"

namespace dlblas::norm {
namespace {
enum Tensor : int { kX, kWeight, kResidual };
enum Result : int { kY, kResidualOut };
}  // namespace

void add_rms_norm_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                            OracleOut* out) {
  const TensorView& x = args.tensors[kX];
  const TensorView& residual = args.tensors[kResidual];
  const std::int64_t width = args.letters[kC];
  const RowSpec spec = {&args.tensors[kWeight],
                        x.dtype,
                        width,
                        args.scalars[kEps].f,
                        weight_offset_of(args),
                        args.scalars[kCastBeforeWeight].i != 0};
  const Rows x_map = rows_of(x), residual_map = rows_of(residual);
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const std::int64_t x0 = x_map.offset(rows[i]), r0 = residual_map.offset(rows[i]);
    double* h = out[kResidualOut].value + i * width;
    for (std::int64_t c = 0; c < width; ++c) {
      const auto a = static_cast<float>(load_element(x, x0 + c * x.strides[x.rank - 1]));
      const auto b =
          static_cast<float>(load_element(residual, r0 + c * residual.strides[residual.rank - 1]));
      h[c] = round_to(x.dtype, a + b);
      out[kResidualOut].magnitude[i * width + c] = std::abs(h[c]);
    }
    reference_row(spec, h, out[kY].value + i * width, out[kY].magnitude + i * width);
  }
}

Bound add_rms_norm_bound(const Problem& problem, int result) {
  // Far below any dtype's step: residual_out is exact.
  if (result == kResidualOut) return {.magnitude = 0, .value = 0, .absolute = 1e-300};
  return row_bound(problem.tensors[kX].dtype);
}

}  // namespace dlblas::norm
