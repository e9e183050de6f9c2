// partial_rotary_heads_backward: schema, oracle and program. Everything else is derived from these.
// Read next: partial_rotary_heads_backward_program.hpp (what it computes),
// partial_rotary_heads_backward_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/rope/latent_heads_ops.hpp"
#include "ops/rope/partial_rotary_heads_backward/partial_rotary_heads_backward_ref.hpp"

namespace dlblas::rope {

OperatorDef partial_rotary_heads_backward();
OperatorDef partial_rotary_heads_backward() {
  OperatorDef def;
  def.family = "rope";
  def.schema =
      "partial_rotary_heads_backward(dq_out: f[*T, H, Dn+2Dh], dk_out: like(dq_out)[*T, H, "
      "Dn+2Dh], dv_out: like(dq_out)[*T, H, Dn+2Dh], cos: like(dq_out)|f32[*T, Dh|2Dh], "
      "sin: like(cos)[*T, Dh|2Dh], Dv: dim, Dh: dim) -> (dq: like(dq_out)[*T, H, Dn+2Dh], "
      "dkv: like(dq_out)[*T, H, Dn+Dv]) where T: bucket(tokens)";
  def.formula =
      "dx_2i = dy_l · cos_l + dy_h · sin_h, dx_2i+1 = dy_h · cos_h − dy_l · sin_l of the last 2Dh "
      "channels of dq_out; dkv = dk_out ‖ dv_out";
  def.letters = {"T", "H", "Dn", "Dh", "Dv"};
  kernels::set_row_oracle<partial_rotary_heads_backward_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    return rotation_bound(problem.tensors[kPartialDq].dtype);
  };
  def.work_per_row = [](const Problem& problem) {
    return 8.0 *
           static_cast<double>(problem.dims[kPartialGradDn] + 2 * problem.dims[kPartialGradDh]);
  };
  def.check = [](const Args& args) {
    check_latent(args, kPartialGradDn, kPartialGradDh, kPartialGradDv);
  };
  kernels::RowOp op = {.program = "partial_rotary_heads_backward",
                       .width = "Dh",
                       .operands = {"dq_out|dk_out", "dq|dkv", "|dv_out", "cos", "sin"}};
  latent_heads<kPartialGradDn, kPartialGradDh, kPartialGradDv, kPartialGradCos, kPartialGradSin>(
      op);
  op.registers = 30, op.access_registers = 18;  // 46 in all spilled: 352 threads have 40
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::rope
