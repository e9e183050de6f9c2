// silu_and_mul_quant_masked: schema and oracle; its kernels are those of all scales over groups.
// Read next: silu_and_mul_quant_masked_ref.hpp (how exactly), ops/quant_groups.hpp.
#include <bit>

#include "core/error.hpp"
#include "ops/activation/silu_and_mul_quant_masked/silu_and_mul_quant_masked_ref.hpp"
#include "ops/quant_groups.hpp"

namespace dlblas::activation {

OperatorDef silu_and_mul_quant_masked();
OperatorDef silu_and_mul_quant_masked() {
  static constexpr quant::QuantGroupsOp kGroups = {.gated = true,
                                                   .count = kMaskedM,
                                                   .q = kMaskedQ,
                                                   .scale = kMaskedScale,
                                                   .rows = {kMaskedE, kMaskedRows},
                                                   .width = kMaskedF,
                                                   .group_letter = kMaskedGroup};
  OperatorDef def;
  def.family = "activation";
  def.schema =
      "silu_and_mul_quant_masked(x: f[E, M, 2F], masked_m: index[E] ~ index<=M, "
      "group: dim = 128, dtype: dtype(f8|i8) = none) -> "
      "(q: dtype|f8e4m3[E, M, F], scale: f32[E, M, F/group])";
  def.formula =
      "y = silu(x[:F]) · x[F:] in rows below masked_m; scale = max |y| / largest of each group; "
      "q = round(y / scale)";
  def.letters = {"E", "M", "F", "group"};
  def.addresses = {"masked_m"};
  kernels::set_row_oracle<silu_and_mul_quant_masked_row<kernels::HostRow>>(def);
  def.bound = [](const Problem&, int judged) {
    return judged == kCodesQ ? quant::quantize_bound(judged)
                             : Bound{.magnitude = kRounding, .value = kRounding};
  };
  def.check = [](const Args& args) {
    const std::int64_t group = args.letters[kMaskedGroup];
    if (group <= 128 && std::has_single_bit(static_cast<std::uint64_t>(group))) return;
    throw Error(
        ErrorKind::kArgument,
        text("silu_and_mul_quant_masked: group is not offered; expected a power of 2 up to "
             "128, got ",
             group),
        {"silu_and_mul_quant_masked", "group", "a power of 2 up to 128", std::to_string(group)});
  };
  def.work_per_row = [](const Problem& problem) {
    return 20.0 * static_cast<double>(problem.dims[kMaskedF]);
  };
  def.implementations = quant::quant_groups_cpu(kGroups);
  def.implementations.push_back(quant::quant_groups_cuda(kGroups));
  return def;
}

}  // namespace dlblas::activation
