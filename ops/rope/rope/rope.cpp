// rope, the serving form of rotary embeddings: schema, oracle and program.
// Read next: rope_program.hpp (what it computes), ops/rope/rotation_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/rope/rotation.hpp"
#include "ops/rope/rotation_ref.hpp"

namespace dlblas::rope {
namespace {

enum Tensor : int { kQ, kK, kPositions, kTable, kQOut, kKOut };
enum Letter : int { kT, kH, kDh, kDn, kHkv, kP };

void rope_row(kernels::HostRow& row) {
  const std::int64_t pairs = row.size(kDh);
  const auto position = [&](std::int64_t token) {
    return static_cast<std::int64_t>(row.load_column(kPositions, token));
  };
  const auto cos = [&](std::int64_t token, std::int64_t i) {
    return row.load_row(kTable, position(token), i % pairs);
  };
  const auto sin = [&](std::int64_t token, std::int64_t i) {
    return row.load_row(kTable, position(token), pairs + i % pairs);
  };
  rotate_row(row, {kQ, 0, kH}, kT, pairs, row.integer(0) == 1, cos, sin);
  rotate_row(row, {kK, 1, kHkv}, kT, pairs, row.integer(0) == 1, cos, sin);
}

/// Channels behind the pairs are columns of their own, but in place.
kernels::RowHeads heads(const std::int64_t* letters, bool in_place) {
  const std::int64_t pairs = letters[kDh], rest = in_place ? 0 : letters[kDn];
  return {.width = pairs + rest, .split = rest > 0 ? pairs : 0};
}

}  // namespace

OperatorDef rope();
OperatorDef rope() {
  OperatorDef def;
  def.family = "rope";
  def.schema =
      "rope(q: f[T, H, 2Dh+Dn], k: like(q)[T, Hkv, 2Dh+Dn], positions: index[T] ~ index<P, "
      "cos_sin_cache: like(q)|f32[P, 2Dh], *, style: \"neox\"|\"interleaved\" = \"neox\") "
      "-> (q_out: like(q)[T, H, 2Dh+Dn], k_out: like(q)[T, Hkv, 2Dh+Dn]) "
      "where T: bucket(tokens), P: free(2T)";
  def.inplace = {"rope_(q!q_out, k!k_out, positions, cos_sin_cache, *, style)"};
  def.formula = "out_l = x_l · cos − x_h · sin; out_h = x_h · cos + x_l · sin";
  def.letters = {"T", "H", "Dh", "Dn", "Hkv", "P"};
  def.reference = kernels::row_reference<rope_row>;
  def.bound = [](const Problem& problem, int) { return rotation_bound(problem.tensors[kQ].dtype); };
  def.work_per_row = [](const Problem& problem) {
    return 6.0 * static_cast<double>(2 * problem.dims[kDh] + problem.dims[kDn]);
  };
  kernels::RowOp op = {.program = "rope",
                       .width = "Dh",
                       .operands = {"q|k", "q_out|k_out", "cos_sin_cache", "positions"},
                       .rows = "T",
                       .heads = heads};
  op.registers = 32, op.access_registers = 12;
  op.span = [](const Problem& problem) { return problem.scalars[0] == 1 ? 2 : 1; };
  op.choose = [](const Problem& problem, std::int32_t* options) {
    const bool in_place = problem.tensors[kQOut].alias != 0 && problem.tensors[kKOut].alias != 0;
    options[kPairs] = static_cast<std::int32_t>(problem.dims[kDh]);
    options[kCopies] = problem.dims[kDh] == 0 || (!in_place && problem.dims[kDn] > 0);
    options[kInterleaved] = problem.scalars[0] == 1;
  };
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::rope
