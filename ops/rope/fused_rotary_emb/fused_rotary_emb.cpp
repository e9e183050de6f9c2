// fused_rotary_emb, rotary embeddings that compute their tables on the fly: schema, oracle and
// program. Read next: fused_rotary_emb_program.hpp (what it computes), fused_rotary_emb_ref.hpp
// (how exactly).
#include "core/error.hpp"
#include "kernels/rows.hpp"
#include "ops/rope/fused_rotary_emb/fused_rotary_emb_ref.hpp"
#include "ops/rope/rotation_ops.hpp"

namespace dlblas::rope {
namespace {

void check(const Args& args) {
  const double scaling = args.scalars[0].f;
  if (scaling >= 1e-6 && scaling <= 1e6) return;
  throw Error(
      ErrorKind::kArgument,
      text("fused_rotary_emb: scaling_factor is out of range; expected 1e-6 … 1e6, got ", scaling),
      {.op = "fused_rotary_emb", .argument = "scaling_factor"});
}

}  // namespace

OperatorDef fused_rotary_emb();
OperatorDef fused_rotary_emb() {
  OperatorDef def;
  def.family = "rope";
  def.schema =
      "fused_rotary_emb(q: f[*T, H, 2Dh], k: like(q)[*T, Hkv, 2Dh], "
      "position_ids: index[*T] ~ index<64, inv_freq: like(q)|f32[Dh] ~ positive, "
      "scaling_factor: float = 1, *, style: \"neox\"|\"interleaved\"|\"interleaved_to_half\" = "
      "\"neox\") "
      "-> (q_out: like(q)[*T, H, 2Dh], k_out: like(q)[*T, Hkv, 2Dh]) where T: bucket(tokens)";
  def.inplace = {
      "fused_rotary_emb_(q!q_out, k!k_out, position_ids, inv_freq, scaling_factor, *, style)"};
  def.formula =
      "angle = position / scaling_factor · inv_freq; out_l = x_l · cos(angle) − x_h · sin(angle); "
      "out_h = x_h · cos(angle) + x_l · sin(angle)";
  def.letters = {"T", "H", "Dh", "Hkv"};
  kernels::set_row_oracle<fused_rotary_emb_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    return rotation_bound(problem.tensors[kFusedQ].dtype);
  };
  def.work_per_row = [](const Problem& problem) {
    return 60.0 * static_cast<double>(problem.dims[kFusedDh]);
  };
  def.check = check;
  kernels::RowOp op = {.program = "fused_rotary_emb",
                       .width = "Dh",
                       .operands = {"q|k", "q_out|k_out", "inv_freq", "position_ids"},
                       .any_number = {"position_ids"}};
  op.heads = [](const std::int64_t* letters, bool) { return rotated_heads(letters[kFusedDh], 0); };
  op.span = rotation_span<0>, op.crosses = rotation_crosses<0>;
  op.registers = 48, op.access_registers = 20;
  op.heads_together = true;
  op.fill = [](const Args& args, RowCall& call) {
    call.f[0] = static_cast<float>(args.scalars[0].f);
  };
  op.choose = [](const Problem& problem, std::int32_t* options) {
    choose_rotation<0>(problem, problem.dims[kFusedDh], 0, options);
  };
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::rope
