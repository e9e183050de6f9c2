// add_rms_norm: schema, oracle and ordered implementations. Everything else is derived from the
// schema. Read next: ops/norm/add_rms_norm/add_rms_norm_ref.hpp (what it computes),
// ops/norm/add_rms_norm/add_rms_norm_program.hpp (how).
#include "ops/norm/add_rms_norm/add_rms_norm_ref.hpp"
#include "ops/norm/norm_rows.hpp"

namespace dlblas::norm {
namespace {
constexpr NormTensors kTensors = {.x = 0, .weight = 1, .residual = 2, .y = 3, .residual_out = 4};
}  // namespace

OperatorDef add_rms_norm();
OperatorDef add_rms_norm() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "add_rms_norm(x: f[*T, C], weight: like(x)|f32|none[C], residual: like(x)[*T, C], "
      "eps: float = 1e-6, *, weight_offset: float = 0, cast_before_weight: bool = false) "
      "-> (y: like(x)[*T, C], residual_out: like(x)[*T, C]) where T: bucket(tokens)";
  def.inplace = {
      "add_rms_norm_(x!y, residual!residual_out, weight, eps, weight_offset, *, "
      "cast_before_weight)"};
  def.formula =
      "h = round(x + residual); residual_out = h; "
      "y = h · rsqrt(mean_C(h²) + eps) · (weight + weight_offset)";
  def.letters = {"T", "C"};
  kernels::set_row_oracle<add_rms_norm_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int result) {
    return add_rms_norm_bound(problem.tensors[0].dtype, result);
  };
  def.work_per_row = [](const Problem& problem) {
    return 4.0 * static_cast<double>(problem.dims[kC]);
  };
  add_norm_implementations(def, kTensors, "add_rms_norm",
                           {"x", "weight", "y", "residual", "residual_out"});
  return def;
}

}  // namespace dlblas::norm
