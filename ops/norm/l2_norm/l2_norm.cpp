// l2_norm over the last dimension: schema, oracle and program. Everything else is derived from
// these. Read next: l2_norm_program.hpp (what it computes), l2_norm_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/check_eps.hpp"
#include "ops/norm/l2_norm/l2_norm_ref.hpp"

namespace dlblas::norm {
OperatorDef l2_norm();
OperatorDef l2_norm() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "l2_norm(x: f[*T, C], eps: float = 1e-12) -> y: like(x)[*T, C] where T: bucket(tokens)";
  def.inplace = {"l2_norm_(x!y, eps)"};
  def.formula = "y = x / max(sqrt(sum_C(x²)), eps)";
  def.letters = {"T", "C"};
  kernels::set_row_oracle<l2_norm_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    return row_bound(problem.tensors[kL2NormX].dtype);
  };
  def.work_per_row = [](const Problem& problem) {
    return 3.0 * static_cast<double>(problem.dims[kL2NormC]);
  };
  def.check = check_eps<kL2NormEps, true>;
  kernels::add_row_implementations(def, {.program = "l2_norm",
                                         .width = "C",
                                         .operands = {"x", "y"},
                                         .reduces = true,
                                         .access_registers = 7,
                                         .fill = [](const Args& args, RowCall& call) {
                                           const double eps = args.scalars[kL2NormEps].f;
                                           call.d[0] = eps * eps;
                                           call.f[0] = static_cast<float>(eps * eps);
                                         }});
  return def;
}

}  // namespace dlblas::norm
