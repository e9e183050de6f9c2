// rms_norm_backward: schema, oracle and ordered implementations. Serves the backward of rms_norm,
// and of add_rms_norm with x = residual_out and dresidual = the gradient that arrives there.
// Read next: ops/norm/rms_norm_backward/rms_norm_backward_ref.cpp (what it computes),
// rms_norm_backward_cpu.cpp and rms_norm_backward_cuda.cpp (how).
#include "ops/norm/rms_norm_backward/rms_norm_backward.hpp"
#include "ops/norm/norm_letters.hpp"

#include "ops/norm/norm_rows.hpp"
#include "ops/norm/rms_norm_backward/rms_norm_backward_ref.hpp"

namespace dlblas::norm {

OperatorDef rms_norm_backward();
OperatorDef rms_norm_backward() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "rms_norm_backward(dy: f[*T, C], x: like(dy)[*T, C], weight: like(dy)|f32|none[C], "
      "dresidual: like(dy)[*T, C]?, eps: float = 1e-6, *, weight_offset: float = 0, "
      "cast_before_weight: bool = false) -> "
      "(dx: like(dy)[*T, C], dweight: like(weight|f32)[C]) where T: bucket(tokens)";
  def.formula =
      "r = rsqrt(mean_C(x²) + eps); g = dy · (weight + weight_offset); "
      "dx = r · (g − x·r · mean_C(g · x·r)) + dresidual; dweight = sum_T(dy · x·r)";
  def.letters = {"T", "C"};
  def.reference = rms_norm_backward_reference;
  def.bound = rms_norm_backward_bound;
  def.check = check_offset;
  def.work_per_row = [](const Problem& problem) {
    return 8.0 * static_cast<double>(problem.dims[kC]);
  };
  def.implementations = backward::cuda();
  for (const Implementation& impl : backward::cpu()) def.implementations.push_back(impl);
  return def;
}

}  // namespace dlblas::norm
