// rms_norm_backward: schema, oracle and ordered implementations. Serves the backward of rms_norm,
// and of add_rms_norm with x = residual_out and dresidual = the gradient of residual_out.
// Read next: ops/norm/rms_norm_backward/rms_norm_backward_ref.hpp (what it computes),
// rms_norm_backward_cpu.cpp and rms_norm_backward_cuda.cpp (how).
#include "ops/norm/rms_norm_backward/rms_norm_backward.hpp"
#include "ops/norm/norm_rows.hpp"

namespace dlblas::norm {
namespace {

Bound bound_of(const Problem& problem, int result) {
  using namespace backward;
  const DType dtype = problem.tensors[result == kResultDx ? kDx : kDweight].dtype;
  const FloatTraits traits = float_traits(dtype);
  Bound bound;
  bound.magnitude = kRounding * (1 + traits.eps);
  // dweight is rounded from f64 or a last f32 sum; an f32 dx has no rounding beyond its last
  // operation's.
  bound.value = result == kResultDx && dtype == DType::kF32 ? 0 : traits.eps / 2;
  bound.absolute = traits.tiny / 2 + 0x1p-149;
  return bound;
}

}  // namespace

OperatorDef rms_norm_backward();
OperatorDef rms_norm_backward() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "rms_norm_backward(dy: f[*T, C], x: like(dy)[*T, C], weight: like(dy)|f32|none[C], "
      "dresidual: like(dy)[*T, C]?, eps: float = 1e-6, *, weight_offset: float = 0, "
      "cast_before_weight: bool = false) -> "
      "(dx: like(dy)[*T, C], dweight: like(weight|f32)[C]) where T: bucket(tokens)";
  def.formula =
      "r = rsqrt(mean_C(x²) + eps); g = dy · (weight + weight_offset); "
      "dx = r · (g − x·r · mean_C(g · x·r)) + dresidual; dweight = sum_T(dy · x·r)";
  def.letters = {"T", "C"};
  kernels::set_shared_row_oracle<rms_norm_backward_shared<kernels::HostRow>,
                                 rms_norm_backward_row<kernels::HostRow>, rms_norm_backward_size>(
      def);
  def.bound = bound_of;
  def.check = check_scalars;
  def.work_per_row = [](const Problem& problem) {
    return 8.0 * static_cast<double>(problem.dims[kC]);
  };
  def.implementations = backward::cuda();
  for (const Implementation& impl : backward::cpu()) def.implementations.push_back(impl);
  return def;
}

}  // namespace dlblas::norm
