// rms_norm_rope, a norm over all heads of a token and their rotation: schema, oracle and program.
// Read next: rms_norm_rope_program.hpp (what it computes), rms_norm_rope_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/common/check_eps.hpp"
#include "ops/rope/rms_norm_rope/rms_norm_rope_ref.hpp"
#include "ops/rope/rotation_ops.hpp"

namespace dlblas::rope {
OperatorDef rms_norm_rope();
OperatorDef rms_norm_rope() {
  OperatorDef def;
  def.family = "rope";
  def.schema =
      "rms_norm_rope(x: f[*T, H, 2Dh], weight: like(x)|f32[H, 2Dh], cos: like(x)|f32[*T, "
      "Dh|2Dh], sin: like(cos)[*T, Dh|2Dh], eps: float = 1e-6) -> y: like(x)[*T, H, 2Dh] "
      "where T: bucket(tokens)";
  def.inplace = {"rms_norm_rope_(x!y, weight, cos, sin, eps)"};
  def.formula =
      "n = x · rsqrt(mean_{H, 2Dh}(x²) + eps) · weight; y_l = n_l · cos_l − n_h · sin_l; "
      "y_h = n_h · cos_l + n_l · sin_l";
  def.letters = {"T", "H", "Dh"};
  kernels::set_row_oracle<rms_norm_rope_row<kernels::HostRow>>(def);
  def.bound = normed_bound;
  def.check = norm::check_eps<0>;
  def.work_per_row = [](const Problem& problem) {
    return 18.0 * static_cast<double>(problem.dims[kNormRopeDh] * problem.dims[kNormRopeH]);
  };
  kernels::RowOp op = {
      .program = "rms_norm_rope", .width = "Dh", .operands = {"x", "y", "weight", "cos", "sin"}};
  op.heads = [](const std::int64_t* letters, bool) {
    return rotated_heads(letters[kNormRopeDh], 0);
  };
  op.reduces = true;
  op.registers = 26, op.access_registers = 15;
  op.fill = [](const Args& args, RowCall& call) {
    const std::int64_t* letters = args.letters;
    norm::fill_mean_square(args.scalars[0].f, 2 * letters[kNormRopeH] * letters[kNormRopeDh], call);
  };
  op.choose = [](const Problem& problem, std::int32_t* options) {
    options[kPairs] = static_cast<std::int32_t>(problem.dims[kNormRopeDh]);
  };
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::rope
