// The oracle of rms_norm: y = x · rsqrt(mean_C(x²) + eps) · (weight + weight_offset), any strides,
// in f64. Read next: ops/norm/norm_ref.cpp, which has the formula and the error it allows.
#include "ops/norm/rms_norm/rms_norm_ref.hpp"

#include <vector>

#include "core/element.hpp"
#include "ops/norm/norm_ops.hpp"
#include "ops/norm/norm_ref.hpp"

namespace dlblas::norm {
namespace {
enum Tensor : int { kX, kWeight, kY };
}  // namespace

void rms_norm_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                        OracleOut* out) {
  const TensorView& x = args.tensors[kX];
  const std::int64_t width = args.letters[kC], stride = x.strides[x.rank - 1];
  const RowSpec spec = {&args.tensors[kWeight],
                        x.dtype,
                        width,
                        args.scalars[kEps].f,
                        weight_offset_of(args),
                        args.scalars[kCastBeforeWeight].i != 0};
  const Rows map = rows_of(x);
  std::vector<double> h(width);
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const std::int64_t at = map.offset(rows[i]);
    for (std::int64_t c = 0; c < width; ++c) h[c] = load_element(x, at + c * stride);
    reference_row(spec, h.data(), out[0].value + i * width, out[0].magnitude + i * width);
  }
}

Bound rms_norm_bound(const Problem& problem, int) { return row_bound(problem.tensors[kX].dtype); }

}  // namespace dlblas::norm
