// rms_norm: schema, oracle and ordered implementations. Everything else is derived from the schema.
// Read next: ops/norm/rms_norm/rms_norm_ref.hpp (what it computes),
// ops/norm/rms_norm/rms_norm_program.hpp (how).
#include "ops/norm/norm_rows.hpp"
#include "ops/norm/rms_norm/rms_norm_ref.hpp"

namespace dlblas::norm {
namespace {
constexpr NormTensors kTensors = {.x = 0, .weight = 1, .residual = -1, .y = 2, .residual_out = -1};
}  // namespace

OperatorDef rms_norm();
OperatorDef rms_norm() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "rms_norm(x: f[*T, C], weight: like(x)|f32|none[C], eps: float = 1e-6, *, "
      "weight_offset: float = 0, cast_before_weight: bool = false) -> y: like(x)[*T, C] "
      "where T: bucket(tokens)";
  def.inplace = {"rms_norm_(x!y, weight, eps, *, weight_offset, cast_before_weight)"};
  def.formula = "y = x · rsqrt(mean_C(x²) + eps) · (weight + weight_offset)";
  def.letters = {"T", "C"};
  kernels::set_row_oracle<rms_norm_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) { return row_bound(problem.tensors[0].dtype); };
  def.work_per_row = [](const Problem& problem) {
    return 3.0 * static_cast<double>(problem.dims[kC]);
  };
  add_norm_implementations(def, kTensors, "rms_norm", {"x", "weight", "y"});
  return def;
}

}  // namespace dlblas::norm
