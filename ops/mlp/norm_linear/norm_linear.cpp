// norm_linear: schema, oracle, and its implementation, composed of rms_norm and matmul.
// Read next: norm_linear_ref.hpp (what it computes), ops/mlp/norm_composed.hpp (how).
#include "ops/check_eps.hpp"
#include "ops/mlp/norm_linear/norm_linear_ref.hpp"

#include "core/source_hash.hpp"
#include "ops/mlp/matrices.hpp"
#include "ops/mlp/norm_composed.hpp"

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
  append_norm_composed(def.implementations, source_hash<"ops/mlp/norm_linear/norm_linear.cpp">(),
                       supports, parts, run);
  return def;
}

}  // namespace dlblas::mlp
