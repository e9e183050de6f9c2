// norm_gated_linear: schema, oracle, and its implementations: one kernel, or composed of rms_norm
// and gated_linear. Read next: norm_gated_linear_ref.hpp (what it computes),
// ops/mlp/norm_composed.hpp (how).
#include "ops/common/check_eps.hpp"
#include "ops/mlp/norm_gated_linear/norm_gated_linear_ref.hpp"

#include "core/source_hash.hpp"
#include "ops/mlp/matrices.hpp"
#include "ops/mlp/norm_composed.hpp"
#include "ops/mlp/norm_fused.hpp"

namespace dlblas::mlp {
namespace {

const char* label_of(std::int64_t gate) {
  constexpr const char* kLabels[] = {"silu", "gelu", "gelu_tanh", "relu"};
  return kLabels[gate];
}

std::vector<Part> parts(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const std::int64_t t = p.dims[kNormGatedT], k = p.dims[kNormGatedK], f = p.dims[kNormGatedF];
  return {norm_part(q),
          {"gated_linear",
           {{p.tensors[kNormGatedX].dtype, {t, k}},
            {p.tensors[kNormGatedGate], {f, k}},
            {p.tensors[kNormGatedUp], {f, k}},
            {"activation", label_of(p.scalars[0])}},
           {{p.tensors[kNormGatedY], {t, f}}}}};
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const TensorView normed =
      run_norm(args, args.scalars[kNormGatedEps].f, context, kernel, workspace);
  kernel.part(1)({normed,
                  args.tensors[kNormGatedGate],
                  args.tensors[kNormGatedUp],
                  {"activation", label_of(args.scalars[kNormGatedActivation].i)}},
                 {flat(args.tensors[kNormGatedY])}, context, workspace);
  return 0;
}

Support supports(const Query&) { return Support::yes(); }

constexpr NormProduct kProduct = {.x = kNormGatedX,
                                  .gain = kNormGatedGain,
                                  .weights = {kNormGatedGate, kNormGatedUp},
                                  .parts = 2,
                                  .y = kNormGatedY,
                                  .t = kNormGatedT,
                                  .k = kNormGatedK,
                                  .n = kNormGatedF,
                                  .eps = kNormGatedEps,
                                  .is_gated = true};

double composed_ms(const Query& q, const Config&) { return composed_milliseconds(q, kProduct); }

}  // namespace

OperatorDef norm_gated_linear();
OperatorDef norm_gated_linear() {
  OperatorDef def;
  def.family = "mlp";
  def.schema =
      "norm_gated_linear(x: f[*T, K], rms_w: like(x)|f32[K], w_gate: like(x)[F, K], "
      "w_up: like(x)[F, K], eps: float = 1e-6, "
      "activation: \"silu\"|\"gelu\"|\"gelu_tanh\"|\"relu\" = \"silu\") "
      "-> y: like(x)[*T, F] where T: bucket(tokens)";
  def.formula = "x̂ = x · rsqrt(mean_K(x²) + eps) · rms_w; y = act(x̂ · w_gateᵀ) ⊙ (x̂ · w_upᵀ)";
  def.letters = {"T", "K", "F"};
  kernels::set_row_oracle<norm_gated_linear_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& p, int) { return norm_bound(p.tensors[kNormGatedY].dtype); };
  def.check = [](const Args& args) {
    norm::check_eps<kNormGatedEps>(args);
    check_rows(args, {kNormGatedX, kNormGatedY});
  };
  def.work_per_row = [](const Problem& p) {
    return 2.0 * static_cast<double>(p.dims[kNormGatedK]) *
           static_cast<double>(p.dims[kNormGatedF]);
  };
  const char* const hash = source_hash<"ops/mlp/norm_gated_linear/norm_gated_linear.cpp">();
  append_norm_gemv(def.implementations, kProduct, hash);
  append_norm_wgmma(def.implementations, kProduct, hash);
  append_norm_composed(def.implementations, hash, supports, parts, run, composed_ms);
  return def;
}

}  // namespace dlblas::mlp
