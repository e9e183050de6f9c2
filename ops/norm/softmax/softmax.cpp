// softmax over the last dimension: schema, oracle and program. Everything else is derived from
// these. Read next: softmax_program.hpp (what it computes), softmax_ref.hpp (how exactly).
#include "ops/norm/softmax/softmax_ref.hpp"
#include "ops/norm/softmax_ops.hpp"

namespace dlblas::norm {

OperatorDef softmax();
OperatorDef softmax() {
  OperatorDef def;
  def.family = "norm";
  def.schema = "softmax(x: f[*T, C]) -> y: like(x)[*T, C] where T: bucket(tokens)";
  def.inplace = {"softmax_(x!y)"};
  def.formula = "y = exp(x − max_C(x)) / sum_C exp(x − max_C(x))";
  def.letters = {"T", "C"};
  kernels::set_row_oracle<softmax_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kSoftmaxX].dtype);
    return Bound{.magnitude = kRounding, .value = out.eps / 2, .absolute = out.tiny + 0x1p-124};
  };
  def.work_per_row = [](const Problem& problem) {
    return 24.0 * static_cast<double>(problem.dims[kSoftmaxC]);
  };
  kernels::add_row_implementations(def, {.program = "softmax",
                                         .width = "C",
                                         .operands = {"x", "y"},
                                         .reduces = true,
                                         .variants = 2,
                                         .tuning = &kSoftmaxTuning});
  return def;
}

}  // namespace dlblas::norm
