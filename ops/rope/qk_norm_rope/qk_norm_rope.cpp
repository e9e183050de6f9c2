// qk_norm_rope, a norm of each head of q and k and their rotation: schema, oracle and program.
// Read next: qk_norm_rope_program.hpp (what it computes), qk_norm_rope_ref.hpp (how exactly).
#include <cmath>

#include "core/error.hpp"
#include "kernels/rows.hpp"
#include "ops/common/check_eps.hpp"
#include "ops/rope/qk_norm_rope/qk_norm_rope_program.hpp"
#include "ops/rope/qk_norm_rope/qk_norm_rope_ref.hpp"
#include "ops/rope/rotation_ops.hpp"

namespace dlblas::rope {
OperatorDef qk_norm_rope();
OperatorDef qk_norm_rope() {
  OperatorDef def;
  def.family = "rope";
  def.schema =
      "qk_norm_rope(q: f[*T, H, 2Dh+2Dp], k: like(q)[*T, Hkv, 2Dh+2Dp], "
      "q_weight: like(q)|f32[2Dh+2Dp], k_weight: like(q_weight)[2Dh+2Dp], "
      "positions: index[*T] ~ index<P, cos_sin_cache: like(q)|f32[P, 2Dh], eps: float = 1e-6, *, "
      "style: \"neox\"|\"interleaved\"|\"interleaved_to_half\" = \"neox\", "
      "key_cache: like(q)|f8[Pc, page, Hkv, 2Dh+2Dp]?!, slots: index[*T]? ~ distinct<Pc*page|-1, "
      "k_scale: float = 1 key(set=0.5)) "
      "-> (q_out: like(q)[*T, H, 2Dh+2Dp], k_out: like(q)[*T, Hkv, 2Dh+2Dp]) "
      "where T: bucket(tokens), P: free(2T), Pc: free(2T/page+1)";
  def.inplace = {
      "qk_norm_rope_(q!q_out, k!k_out, q_weight, k_weight, positions, cos_sin_cache, eps, *, "
      "style, key_cache, slots, k_scale)"};
  def.formula =
      "n = x · rsqrt(mean_D(x²) + eps) · weight; out_l = n_l · cos − n_h · sin; "
      "out_h = n_h · cos + n_l · sin";
  def.addresses = {"positions"};
  def.letters = {"T", "H", "Dh", "Dp", "Hkv", "P", "Pc", "page"};
  def.check = [](const Args& args) {
    norm::check_eps<0>(args);
    const double scale = args.scalars[kQkScale].f;
    if (args.has(kQkCache) != args.has(kQkSlots))
      throw Error(ErrorKind::kArgument,
                  "qk_norm_rope: key_cache and slots go together; expected both or neither",
                  {.op = "qk_norm_rope", .argument = "slots"});
    if (!(scale > 0 && std::isfinite(scale)))
      throw Error(ErrorKind::kArgument,
                  text("qk_norm_rope: k_scale is out of range; expected above 0, got ", scale),
                  {.op = "qk_norm_rope", .argument = "k_scale"});
  };
  kernels::set_row_oracle<qk_norm_rope_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int judged) {
    return norm::row_bound(problem.tensors[judged == 2 ? kQkCache : kQkQ].dtype);
  };
  def.work_per_row = [](const Problem& problem) {
    return 18.0 * static_cast<double>(problem.dims[kQkDh] + problem.dims[kQkDp]);
  };
  kernels::RowOp op = {.program = "qk_norm_rope",
                       .width = "Dh",
                       .operands = {"q|k", "q_out|k_out", "q_weight|k_weight", "cos_sin_cache",
                                    "positions", "|key_cache", "slots"},
                       .any_number = {"slots"}};
  op.heads = [](const std::int64_t* letters, bool) {
    return rotated_heads(letters[kQkDh], letters[kQkDp]);
  };
  op.reduces_groups = true;
  op.registers = 36, op.access_registers = 16;
  op.span = rotation_span<0>, op.crosses = rotation_crosses<0>;
  op.fill = [](const Args& args, RowCall& call) {
    const std::int64_t width = 2 * (args.letters[kQkDh] + args.letters[kQkDp]);
    norm::fill_mean_square(args.scalars[0].f, width, call);
    call.f[kCacheScale] = static_cast<float>(args.scalars[kQkScale].f);
  };
  op.choose = [](const Problem& problem, std::int32_t* options) {
    choose_rotation<0>(problem, problem.dims[kQkDh], problem.dims[kQkDp], options);
    options[kCaches] = problem.tensors[kQkCache].dtype == DType::kAbsent ? 0 : kPlain;
    if (options[kCaches] != 0 && problem.scalars[1] != 0) options[kCaches] = kScaled;
  };
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::rope
