// rope, the serving form of rotary embeddings: schema, oracle and program.
// Read next: rope_program.hpp (what it computes), rope_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/rope/rope/rope_ref.hpp"
#include "ops/rope/rotation_ops.hpp"

namespace dlblas::rope {
namespace {

/// Channels after the pairs are columns of their own, except in place.
kernels::RowHeads heads(const std::int64_t* letters, bool in_place) {
  return rotated_heads(letters[kRopeDh], in_place ? 0 : letters[kRopeDn]);
}

}  // namespace

OperatorDef rope();
OperatorDef rope() {
  OperatorDef def;
  def.family = "rope";
  def.schema =
      "rope(q: f[*T, H, 2Dh+Dn], k: like(q)[*T, Hkv, 2Dh+Dn], positions: index[*T] ~ index<P, "
      "cos_sin_cache: like(q)|f32[P, 2Dh], *, "
      "style: \"neox\"|\"interleaved\"|\"interleaved_to_half\" = \"neox\") "
      "-> (q_out: like(q)[*T, H, 2Dh+Dn], k_out: like(q)[*T, Hkv, 2Dh+Dn]) "
      "where T: bucket(tokens), P: free(2T)";
  def.inplace = {"rope_(q!q_out, k!k_out, positions, cos_sin_cache, *, style)"};
  def.formula = "out_l = x_l · cos − x_h · sin; out_h = x_h · cos + x_l · sin";
  def.addresses = {"positions"};
  def.letters = {"T", "H", "Dh", "Dn", "Hkv", "P"};
  kernels::set_row_oracle<rope_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    return rotation_bound(problem.tensors[kRopeQ].dtype);
  };
  def.work_per_row = [](const Problem& problem) {
    return 6.0 * static_cast<double>(2 * problem.dims[kRopeDh] + problem.dims[kRopeDn]);
  };
  kernels::RowOp op = {.program = "rope",
                       .width = "Dh",
                       .operands = {"q|k", "q_out|k_out", "cos_sin_cache", "positions"},
                       .heads = heads};
  op.registers = 32, op.access_registers = 12;
  op.span = rotation_span<0>, op.crosses = rotation_crosses<0>;
  op.choose = [](const Problem& problem, std::int32_t* options) {
    const bool in_place =
        problem.tensors[kRopeQOut].alias != 0 && problem.tensors[kRopeKOut].alias != 0;
    const std::int64_t pairs = problem.dims[kRopeDh], rest = problem.dims[kRopeDn];
    choose_rotation<0>(problem, pairs, pairs == 0 || (!in_place && rest > 0), options);
  };
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::rope
