// log_softmax over the last dimension: schema, oracle and program. Everything else is derived from
// these. Read next: log_softmax_program.hpp (what it computes), log_softmax_ref.hpp (how exactly).
#include "ops/norm/log_softmax/log_softmax_ref.hpp"
#include "ops/norm/softmax_ops.hpp"

namespace dlblas::norm {

OperatorDef log_softmax();
OperatorDef log_softmax() {
  OperatorDef def;
  def.family = "norm";
  def.schema = "log_softmax(x: f[*T, C]) -> y: like(x)[*T, C] where T: bucket(tokens)";
  def.inplace = {"log_softmax_(x!y)"};
  def.formula = "y = x − max_C(x) − log sum_C exp(x − max_C(x))";
  def.letters = {"T", "C"};
  kernels::set_row_oracle<log_softmax_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kLogSoftmaxX].dtype);
    return Bound{.magnitude = kRounding, .value = out.eps / 2, .absolute = out.tiny};
  };
  def.work_per_row = [](const Problem& problem) {
    return 20.0 * static_cast<double>(problem.dims[kLogSoftmaxC]);
  };
  kernels::add_row_implementations(def, {.program = "log_softmax",
                                         .width = "C",
                                         .operands = {"x", "y"},
                                         .reduces = true,
                                         .variants = 2,
                                         .tuning = &kSoftmaxTuning});
  return def;
}

}  // namespace dlblas::norm
