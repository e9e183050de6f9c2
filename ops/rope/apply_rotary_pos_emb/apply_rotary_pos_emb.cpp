// apply_rotary_pos_emb, rotary embeddings with tables of one row per token: schema, oracle and
// program. Read next: apply_rotary_pos_emb_program.hpp (what it computes),
// apply_rotary_pos_emb_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/rope/apply_rotary_pos_emb/apply_rotary_pos_emb_program.hpp"
#include "ops/rope/apply_rotary_pos_emb/apply_rotary_pos_emb_ref.hpp"
#include "ops/rope/rotation_ops.hpp"

namespace dlblas::rope {

OperatorDef apply_rotary_pos_emb();
OperatorDef apply_rotary_pos_emb() {
  OperatorDef def;
  def.family = "rope";
  def.schema =
      "apply_rotary_pos_emb(q: f[*T, H, 2Dh], k: like(q)[*T, Hkv, 2Dh], cos: like(q)|f32[*T, "
      "Dh|2Dh], sin: like(cos)[*T, Dh|2Dh], *, style: "
      "\"neox\"|\"interleaved\"|\"interleaved_to_half\" = "
      "\"neox\", cast_before_sum: bool = false) "
      "-> (q_out: like(q)[*T, H, 2Dh], k_out: like(q)[*T, Hkv, 2Dh]) where T: bucket(tokens)";
  def.inplace = {"apply_rotary_pos_emb_(q!q_out, k!k_out, cos, sin, *, style, cast_before_sum)"};
  def.formula = "out_l = x_l · cos_l − x_h · sin_l; out_h = x_h · cos_h + x_l · sin_h";
  def.letters = {"T", "H", "Dh", "Hkv"};
  kernels::set_row_oracle<apply_rotary_pos_emb_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    return rotation_bound(problem.tensors[kApplyQ].dtype);
  };
  def.work_per_row = [](const Problem& problem) {
    return 12.0 * static_cast<double>(problem.dims[kApplyDh]);
  };
  kernels::RowOp op = {.program = "apply_rotary_pos_emb",
                       .width = "Dh",
                       .operands = {"q|k", "q_out|k_out", "cos", "sin"}};
  op.heads = [](const std::int64_t* letters, bool) { return rotated_heads(letters[kApplyDh], 0); };
  op.span = rotation_span<kApplyStyle>, op.crosses = rotation_crosses<kApplyStyle>;
  op.registers = 40, op.access_registers = 16;
  op.choose = [](const Problem& problem, std::int32_t* options) {
    choose_rotation<kApplyStyle>(problem, problem.dims[kApplyDh], 0, options);
    // A product in f32 is already rounded to f32.
    const bool casts =
        problem.scalars[kApplyCastBeforeSum] != 0 && problem.tensors[kApplyQ].dtype != DType::kF32;
    options[kApplyHow] = halves_of(problem, kApplyCos, kApplySin) | (casts ? kCastsBeforeSum : 0);
  };
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::rope
