// group_norm_backward: schema, oracle and program. Everything else is derived from these. Read
// next: group_norm_backward_program.hpp (what it computes), group_norm_backward_ref.hpp (how
// exactly).
#include "ops/norm/group_norm_backward/group_norm_backward_ref.hpp"
#include "ops/norm/layer_norm_ops.hpp"

namespace dlblas::norm {
namespace {

/// For cuda_cluster: the smallest cluster of blocks whose threads hold at most six accesses. bf16
/// with silu on an H200, 30 November 2026: 256×40960 256 threads × 6 × cluster of 4 37.8 µs, 256 ×
/// 3 × 8 38.6, 128 × 6 × 8 39.2, 512 × 3 × 4 53.0; 1024×20480 128 × 6 × 4 59.6, 256 × 6 × 2 60.3,
/// 256 × 3 × 4 67.1. A copy of the same bytes 16.4 and 31.4.
std::vector<RowConfig> wanted(const kernels::RowQuery& q) {
  std::vector<RowConfig> all;
  if (q.kind != kernels::RowKernelKind::kCluster) return all;
  for (const std::int32_t most : {6, 16}) {
    for (const std::int32_t threads : {256, 128, 512, 1024}) {
      RowConfig c;
      c.threads = threads;
      for (c.cluster = 2; c.cluster <= 16; c.cluster *= 2) {
        c.vectors = kernels::row_vectors_for(q.accesses, std::int64_t{threads} * c.cluster);
        if (c.vectors > 0 && c.vectors <= most) all.push_back(c);
      }
    }
  }
  return all;
}
constexpr kernels::RowTuning kTuning = {wanted, nullptr, nullptr};

}  // namespace

OperatorDef group_norm_backward();
OperatorDef group_norm_backward() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "group_norm_backward(dy: f[*T, C], x: like(dy)[*T, C], "
      "weight: like(dy)|f32[groups, C/inner]?, bias: like(dy)|f32[groups, C/inner]?, "
      "groups: dim = 1, inner: dim = 1, eps: float = 1e-5, activation: \"\"|\"silu\" = \"\") "
      "-> (dx: like(dy)[*T, C], dweight: like(weight|f32)[groups, C/inner], "
      "dbias: like(bias|f32)[groups, C/inner]) where T: bucket(tokens)";
  def.formula =
      "the gradient of y = group_norm_rows(x, weight, bias, …): dx; over the rows with the same t "
      "% groups and each group of inner columns, dweight and dbias; zeros for what is absent";
  def.letters = {"T", "C", "groups", "inner"};
  kernels::set_shared_row_oracle<group_norm_backward_shared<kernels::HostRow>,
                                 group_norm_backward_row<kernels::HostRow>,
                                 group_norm_backward_size>(def);
  def.bound = bound_of_gradient<kGroupGradDx>;
  def.check = check_phases<kGroupGradEps, kGroupGradGroups>;
  def.work_per_row = work_of_row<40, kGroupGradC>;
  kernels::add_row_implementations(
      def, {.program = "group_norm_backward",
            .width = "C",
            .operands = {"x", "weight", "bias", "dy", "dx", "dweight", "dbias"},
            .period = "groups",
            .reduces = true,
            .group = "inner",
            .registers = 44,
            .access_registers = 12,
            .tuning = &kTuning,
            .fill = fill_layer_norm_row<kGroupGradEps, kGroupGradC>,
            .choose = [](const Problem& problem, std::int32_t* options) {
              choose_layer_norm<kGroupGradWeight, kGroupGradBias>(problem, options);
              options[2] = problem.scalars[0] == 1;
            }});
  return def;
}

}  // namespace dlblas::norm
