// moe_sum, the sum of the outputs of a token's experts: schema, oracle and program.
// Read next: moe_sum_program.hpp (what it computes), moe_sum_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/moe/moe_sum/moe_sum_ref.hpp"

namespace dlblas::moe {

OperatorDef moe_sum();
OperatorDef moe_sum() {
  OperatorDef def;
  def.family = "moe";
  def.schema = "moe_sum(x: f[*T, k, C]) -> y: like(x)[*T, C] where T: bucket(tokens)";
  def.formula = "y = Σ_k x";
  def.letters = {"T", "k", "C"};
  kernels::set_row_oracle<moe_sum_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kMoeSumX].dtype);
    const bool narrow = problem.tensors[kMoeSumX].dtype != DType::kF32;
    return Bound{.magnitude = (1 + 0x1p-16) * kRounding,
                 .value = narrow ? (1 + 0x1p-20) * out.eps / 2 : 0,
                 .absolute = out.tiny};
  };
  def.work_per_row = [](const Problem& problem) {
    return static_cast<double>(problem.dims[kMoeSumK] * problem.dims[kMoeSumC]);
  };
  kernels::add_row_implementations(
      def, {.program = "moe_sum",
            .width = "C",
            .operands = {"x", "y"},
            .registers = 56,
            .access_registers = 16,
            .fill = [](const Args& args, RowCall& call) { call.n[0] = args.letters[kMoeSumK]; },
            .choose =
                [](const Problem& problem, std::int32_t* options) {
                  // Unrolled if a thread's registers hold all layers at a time; else a loop.
                  const std::int64_t layers = problem.dims[kMoeSumK];
                  options[0] = layers <= 8 ? static_cast<std::int32_t>(layers) : 0;
                }});
  return def;
}

}  // namespace dlblas::moe
