// quantize_group: schema, oracle and program. Everything else is derived from these.
// Read next: quantize_group_program.hpp (what it computes), ops/common/quant_ref.hpp (how exactly).
#include "ops/common/quant_groups/quant_groups.hpp"
#include "ops/quant/quantize_group/quantize_group_ref.hpp"
#include "ops/quant/row_scales.hpp"

namespace dlblas::quant {

OperatorDef quantize_group();
OperatorDef quantize_group() {
  OperatorDef def;
  def.family = "quant";
  def.schema =
      "quantize_group(x: f[*T, K], group: dim = 128, dtype: dtype(f8|i8) = none, "
      "scale_dtype: \"f32\"|\"ue8m0\" = \"f32\" runtime) -> "
      "(q: dtype|f8e4m3[*T, K], scale: f32[*T, K/group]) where T: bucket(tokens)";
  def.formula = "scale = max |x| / largest of each group; q = round(x / scale)";
  def.letters = {"T", "K", "group"};
  kernels::set_row_oracle<quantize_group_row<kernels::HostRow>>(def);
  def.bound = [](const Problem&, int judged) { return quantize_bound(judged); };
  def.work_per_row = [](const Problem& problem) {
    return 12.0 * static_cast<double>(problem.dims[kQuantizeK]);
  };
  kernels::add_row_implementations(def, {.program = "quantize_group",
                                         .width = "K",
                                         .operands = {"x", "q", "scale"},
                                         .group = "group",
                                         .reduces_groups = true,
                                         .fill = fill_scales<kQuantizeScaleDtype>});
  // This implementation takes scales stored column by column, too.
  static constexpr QuantGroupsOp kGroups = {.group_letter = kQuantizeGroup,
                                            .powers = kQuantizeScaleDtype};
  def.implementations.push_back(quant_groups_cuda(kGroups));
  return def;
}

}  // namespace dlblas::quant
