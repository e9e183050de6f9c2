// norm_linear: schema, oracle, and its implementations: one kernel, or composed of rms_norm and
// matmul. Read next: norm_linear_ref.hpp (what it computes), ops/mlp/norm_composed.hpp (how).
#include "ops/common/check_eps.hpp"
#include "ops/mlp/norm_linear/norm_linear_ref.hpp"

#include "core/source_hash.hpp"
#include "ops/mlp/matrices.hpp"
#include "ops/mlp/norm_composed.hpp"
#include "ops/mlp/norm_fused.hpp"

namespace dlblas::mlp {
namespace {

std::vector<Part> parts(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const std::int64_t t = p.dims[kNormT], k = p.dims[kNormK], n = p.dims[kNormN];
  return {norm_part(q),
          {"matmul",
           {{p.tensors[kNormX].dtype, {t, k}}, {exchanged(p.tensors[kNormWeight]), {k, n}}},
           {{p.tensors[kNormY], {t, n}}}}};
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const TensorView normed = run_norm(args, args.scalars[kNormEps].f, context, kernel, workspace);
  kernel.part(1)({normed, exchanged(args.tensors[kNormWeight])}, {flat(args.tensors[kNormY])},
                 context, workspace);
  return 0;
}

Support supports(const Query&) { return Support::yes(); }

constexpr NormProduct kProduct = {.x = kNormX,
                                  .gain = kNormGain,
                                  .weights = {kNormWeight},
                                  .parts = 1,
                                  .y = kNormY,
                                  .t = kNormT,
                                  .k = kNormK,
                                  .n = kNormN,
                                  .eps = kNormEps,
                                  .is_gated = false};

double composed_ms(const Query& q, const Config&) { return composed_milliseconds(q, kProduct); }

}  // namespace

OperatorDef norm_linear();
OperatorDef norm_linear() {
  OperatorDef def;
  def.family = "mlp";
  def.schema =
      "norm_linear(x: f[*T, K], rms_w: like(x)|f32[K], weight: like(x)[N, K], eps: float = 1e-6) "
      "-> y: like(x)[*T, N] where T: bucket(tokens)";
  def.formula = "y = x · rsqrt(mean_K(x²) + eps) · rms_w · weightᵀ";
  def.letters = {"T", "K", "N"};
  kernels::set_row_oracle<norm_linear_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& p, int) { return norm_bound(p.tensors[kNormY].dtype); };
  def.check = [](const Args& args) {
    norm::check_eps<kNormEps>(args);
    check_rows(args, {kNormX, kNormY});
  };
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kNormK]) * static_cast<double>(p.dims[kNormN]);
  };
  const char* const hash = source_hash<"ops/mlp/norm_linear/norm_linear.cpp">();
  append_norm_gemv(def.implementations, kProduct, hash);
  append_norm_wgmma(def.implementations, kProduct, hash);
  append_norm_composed(def.implementations, hash, supports, parts, run, composed_ms);
  return def;
}

}  // namespace dlblas::mlp
