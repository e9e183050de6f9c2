// partial_rotary_heads_sum: schema, oracle and program. Everything else is derived from these.
// Read next: partial_rotary_heads_sum_program.hpp (what it computes),
// partial_rotary_heads_sum_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/rope/partial_rotary_heads_sum/partial_rotary_heads_sum_ref.hpp"
#include "ops/rope/rotation_ops.hpp"

namespace dlblas::rope {

OperatorDef partial_rotary_heads_sum();
OperatorDef partial_rotary_heads_sum() {
  OperatorDef def;
  def.family = "rope";
  def.schema =
      "partial_rotary_heads_sum(dk_pe: f[*T, H, 2Dh], cos: like(dk_pe)|f32[*T, Dh|2Dh], sin: "
      "like(cos)[*T, Dh|2Dh]) -> dx: like(dk_pe)[*T, 2Dh] where T: bucket(tokens)";
  def.formula =
      "s = Σ_H dk_pe; dx_2i = s_l · cos_l + s_h · sin_h; dx_2i+1 = s_h · cos_h − s_l · sin_l";
  def.letters = {"T", "H", "Dh"};
  kernels::set_row_oracle<partial_rotary_heads_sum_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    return rotation_bound(problem.tensors[kPartialSumDk].dtype);
  };
  def.work_per_row = [](const Problem& problem) {
    return 2.0 *
           static_cast<double>((problem.dims[kPartialSumH] + 4) * problem.dims[kPartialSumDh]);
  };
  kernels::add_row_implementations(
      def, {.program = "partial_rotary_heads_sum",
            .width = "Dh",
            .operands = {"dk_pe", "dx", "cos", "sin"},
            .span = [](const Problem&) { return 2; },
            .registers = 56,
            .access_registers = 28,
            .fill = [](const Args& args, RowCall& call) { call.n[0] = args.letters[kPartialSumH]; },
            .choose =
                [](const Problem& problem, std::int32_t* options) {
                  options[0] = static_cast<std::int32_t>(problem.dims[kPartialSumDh]);
                  options[1] = halves_of(problem, kPartialSumCos, kPartialSumSin);
                }});
  return def;
}

}  // namespace dlblas::rope
