// apply_rotary_pos_emb, rotary embeddings by tables with a row for each token: schema, oracle and
// program. Read next: apply_rotary_pos_emb_program.hpp (what it computes),
// ops/rope/rotation_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/rope/rotation.hpp"
#include "ops/rope/rotation_ref.hpp"

namespace dlblas::rope {
namespace {

enum Tensor : int { kQ, kK, kCos, kSin };
enum Letter : int { kT, kH, kDh, kHkv };

void apply_row(kernels::HostRow& row) {
  const auto cos = [&](std::int64_t token, std::int64_t i) { return row.load_row(kCos, token, i); };
  const auto sin = [&](std::int64_t token, std::int64_t i) { return row.load_row(kSin, token, i); };
  rotate_row(row, {kQ, 0, kH}, kT, row.size(kDh), row.integer(0) == 1, cos, sin);
  rotate_row(row, {kK, 1, kHkv}, kT, row.size(kDh), row.integer(0) == 1, cos, sin);
}

}  // namespace

OperatorDef apply_rotary_pos_emb();
OperatorDef apply_rotary_pos_emb() {
  OperatorDef def;
  def.family = "rope";
  def.schema =
      "apply_rotary_pos_emb(q: f[*T, H, 2Dh], k: like(q)[*T, Hkv, 2Dh], cos: like(q)|f32[*T, 2Dh], "
      "sin: like(cos)[*T, 2Dh], *, style: \"neox\"|\"interleaved\" = \"neox\") "
      "-> (q_out: like(q)[*T, H, 2Dh], k_out: like(q)[*T, Hkv, 2Dh]) where T: bucket(tokens)";
  def.inplace = {"apply_rotary_pos_emb_(q!q_out, k!k_out, cos, sin, *, style)"};
  def.formula = "out_l = x_l · cos_l − x_h · sin_l; out_h = x_h · cos_h + x_l · sin_h";
  def.letters = {"T", "H", "Dh", "Hkv"};
  def.reference = kernels::row_reference<apply_row>;
  def.bound = [](const Problem& problem, int) { return rotation_bound(problem.tensors[kQ].dtype); };
  def.work_per_row = [](const Problem& problem) {
    return 12.0 * static_cast<double>(problem.dims[kDh]);
  };
  kernels::RowOp op = {.program = "apply_rotary_pos_emb",
                       .width = "Dh",
                       .operands = {"q|k", "q_out|k_out", "cos", "sin"}};
  op.heads = [](const std::int64_t* letters, bool) {
    return kernels::RowHeads{.width = letters[kDh], .split = 0};
  };
  op.span = [](const Problem& problem) { return problem.scalars[0] == 1 ? 2 : 1; };
  op.registers = 40, op.access_registers = 16;
  op.choose = [](const Problem& problem, std::int32_t* options) {
    options[kPairs] = static_cast<std::int32_t>(problem.dims[kDh]);
    options[kCopies] = 0;
    options[kInterleaved] = problem.scalars[0] == 1;
  };
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::rope
