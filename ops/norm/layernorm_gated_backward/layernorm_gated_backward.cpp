// layernorm_gated_backward: schema, oracle and program. Everything else is derived from these. Read
// next: layernorm_gated_backward_program.hpp (what it computes), layernorm_gated_backward_ref.hpp
// (how exactly).
#include <algorithm>

#include "ops/norm/layer_norm_ops.hpp"
#include "ops/norm/layernorm_gated_backward/layernorm_gated_backward_ref.hpp"

namespace dlblas::norm {
namespace {

/// For cuda_folded: one access per thread, σ(z) and v beside its words, with 512 threads per
/// multiprocessor; two of short rows. bf16 on an H200, 30 November 2026: 16384×4096 512 threads × 1
/// vector 179.4 µs, 128 × 4 × 2 rows 186.0, 256 × 2 × 2 186.9; 131072×512 of 8 groups 32 × 2 × 8
/// 189.3, 64 × 1 × 8 205.0. A copy of the same bytes 158.3 and 160.5.
std::vector<RowConfig> wanted(const kernels::RowQuery& q) {
  std::vector<RowConfig> all;
  if (q.kind != kernels::RowKernelKind::kFolded) return all;
  const std::int32_t first = q.accesses > 128 ? 1 : 2;
  for (const std::int32_t most : {first, 2, 1, 4}) {
    for (std::int32_t threads = 4; threads <= 1024; threads *= 2) {
      RowConfig c;
      c.threads = threads, c.vectors = kernels::row_vectors_for(q.accesses, threads);
      if (c.vectors == 0 || c.vectors > most) continue;
      const std::int32_t block = threads > 32 && most == 1 ? 512 : 256;
      for (c.rows = std::clamp(block / threads, 1, threads > 32 ? 8 : 32); c.rows >= 1; c.rows /= 2)
        for (c.ahead = most == 1 ? 2 : 1; c.ahead >= 1; --c.ahead) all.push_back(c);
    }
  }
  return all;
}
constexpr kernels::RowTuning kTuning = {wanted, nullptr, nullptr};

}  // namespace

OperatorDef layernorm_gated_backward();
OperatorDef layernorm_gated_backward() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "layernorm_gated_backward(dy: f[*T, C], x: like(dy)[*T, C], "
      "weight: like(dy)|f32[groups, C]?, bias: like(dy)|f32[groups, C]?, z: like(dy)[*T, C]?, "
      "groups: dim = 1, eps: float = 1e-6, norm_before_gate: bool = true, "
      "is_rms_norm: bool = false) -> (dx: like(dy)[*T, C], dz: like(dy)[*T, C], "
      "dweight: like(weight|f32)[groups, C], dbias: like(bias|f32)[groups, C]) "
      "where T: bucket(tokens)";
  def.formula =
      "the gradient of y = layernorm_gated_rows(x, weight, bias, z, …): dx, dz; over the rows with "
      "the same t % groups, dweight and dbias; zeros for what is absent";
  def.letters = {"T", "C", "groups"};
  kernels::set_shared_row_oracle<layernorm_gated_backward_shared<kernels::HostRow>,
                                 layernorm_gated_backward_row<kernels::HostRow>,
                                 layernorm_gated_backward_size>(def);
  def.bound = bound_of_gradient<kGatedGradDx>;
  def.check = check_phases<kGatedGradEps, kGatedGradGroups>;
  def.work_per_row = work_of_row<60, kGatedGradC>;
  kernels::add_row_implementations(
      def, {.program = "layernorm_gated_backward",
            .width = "C",
            .operands = {"x", "weight", "bias", "dy", "z", "dx", "dz", "dweight", "dbias"},
            .period = "groups",
            .reduces = true,
            .registers = 40,
            .access_registers = 28,
            .kept_values = 1,
            .tuning = &kTuning,
            .fill = fill_layer_norm_row<kGatedGradEps, kGatedGradC>,
            .choose = [](const Problem& problem, std::int32_t* options) {
              const bool gated = problem.tensors[kGatedGradZ].dtype != DType::kAbsent;
              choose_layer_norm<kGatedGradWeight, kGatedGradBias>(problem, options);
              options[2] = !gated ? 0 : problem.scalars[0] != 0 ? 1 : 2;
              options[3] = problem.scalars[1] != 0;
            }});
  return def;
}

}  // namespace dlblas::norm
