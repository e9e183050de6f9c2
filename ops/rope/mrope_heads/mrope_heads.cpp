// mrope_heads, rotary embeddings with three positions per token: schema, oracle and program.
// Read next: mrope_heads_program.hpp (what it computes), mrope_heads_ref.hpp (how exactly).
#include "core/error.hpp"
#include "kernels/rows.hpp"
#include "ops/rope/mrope_heads/mrope_heads_ref.hpp"
#include "ops/rope/rotation_ops.hpp"

namespace dlblas::rope {
namespace {

void check(const Args& args) {
  const std::int64_t first = args.scalars[kMropeFirst].i, second = args.scalars[kMropeSecond].i;
  if (0 <= first && first <= second && second <= args.letters[kRopeDh]) return;
  throw Error(ErrorKind::kArgument,
              text("mrope_heads: first and second are out of order; expected 0 ≤ first ≤ second ≤ ",
                   args.letters[kRopeDh], ", got ", first, " and ", second),
              {.op = "mrope_heads", .argument = "first"});
}

kernels::RowHeads heads(const std::int64_t* letters, bool in_place) {
  return rotated_heads(letters[kRopeDh], in_place ? 0 : letters[kRopeDn]);
}

}  // namespace

OperatorDef mrope_heads();
OperatorDef mrope_heads() {
  OperatorDef def;
  def.family = "rope";
  def.schema =
      "mrope_heads(q: f[*T, H, 2Dh+Dn], k: like(q)[*T, Hkv, 2Dh+Dn], time: index[*T] ~ index<P, "
      "height: index[*T] ~ index<P, width: index[*T] ~ index<P, cos_sin_cache: like(q)|f32[P, "
      "2Dh], "
      "first: int = 0, second: int = 0, *, "
      "style: \"neox\"|\"interleaved\"|\"interleaved_to_half\" = \"neox\") "
      "-> (q_out: like(q)[*T, H, 2Dh+Dn], k_out: like(q)[*T, Hkv, 2Dh+Dn]) "
      "where T: bucket(tokens), P: free(2T)";
  def.inplace = {
      "mrope_heads_(q!q_out, k!k_out, time, height, width, cos_sin_cache, first, second, *, "
      "style)"};
  def.formula = "out_l = x_l · cos − x_h · sin; out_h = x_h · cos + x_l · sin";
  def.addresses = {"time", "height", "width"};
  def.letters = {"T", "H", "Dh", "Dn", "Hkv", "P"};
  kernels::set_row_oracle<mrope_heads_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    return rotation_bound(problem.tensors[kMropeQ].dtype);
  };
  def.work_per_row = [](const Problem& problem) {
    return 6.0 * static_cast<double>(2 * problem.dims[kRopeDh] + problem.dims[kRopeDn]);
  };
  def.check = check;
  kernels::RowOp op = {
      .program = "mrope_heads",
      .width = "Dh",
      .operands = {"q|k", "q_out|k_out", "cos_sin_cache", "time", "height", "width"},
      .heads = heads};
  op.registers = 32, op.access_registers = 16;
  op.span = rotation_span<kMropeStyle>, op.crosses = rotation_crosses<kMropeStyle>;
  op.fill = [](const Args& args, RowCall& call) {
    call.n[0] = args.scalars[kMropeFirst].i, call.n[1] = args.scalars[kMropeSecond].i;
  };
  op.choose = [](const Problem& problem, std::int32_t* options) {
    const bool in_place =
        problem.tensors[kMropeTable + 1].alias != 0 && problem.tensors[kMropeTable + 2].alias != 0;
    const std::int64_t pairs = problem.dims[kRopeDh], rest = problem.dims[kRopeDn];
    choose_rotation<kMropeStyle>(problem, pairs, pairs == 0 || (!in_place && rest > 0), options);
  };
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::rope
