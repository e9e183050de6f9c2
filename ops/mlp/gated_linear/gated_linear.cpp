// gated_linear: schema, oracle and implementations in order of preference.
// Read next: gated_linear_ref.hpp (what it computes), cpu/gated_linear_cpu.cpp,
// cuda/gated_linear_wgmma_cuda.cpp (how).
#include "ops/mlp/gated_linear/gated_linear.hpp"

#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {

double multiply_adds(const Problem& p) {
  return 2 * static_cast<double>(p.dims[kT]) * static_cast<double>(p.dims[kF]) *
         static_cast<double>(p.dims[kK]);
}
double bytes_of_weights(const Problem& p) {
  return 2 * static_cast<double>(p.dims[kF]) * static_cast<double>(p.dims[kK]) *
         size_of(p.tensors[kGate].dtype);
}
double bytes_of(const Problem& p) {
  return bytes_of_weights(p) + static_cast<double>(p.dims[kT]) *
                                   static_cast<double>(p.dims[kK] + p.dims[kF]) *
                                   size_of(p.tensors[kX].dtype);
}

OperatorDef gated_linear();
OperatorDef gated_linear() {
  OperatorDef def;
  def.family = "mlp";
  def.schema =
      "gated_linear(x: f[*T, K], w_gate: like(x)[F, K], w_up: like(x)[F, K], "
      "activation: \"silu\"|\"gelu\"|\"gelu_tanh\"|\"relu\" = \"silu\") "
      "-> y: like(x)[*T, F] where T: bucket(tokens)";
  def.formula = "y = act(x · w_gateᵀ) ⊙ (x · w_upᵀ)";
  def.letters = {"T", "K", "F"};
  kernels::set_row_oracle<gated_linear_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kY].dtype);
    return Bound{.magnitude = kRounding,
                 .value = out.eps / 2 * (1 + kRounding),
                 .absolute = out.tiny + 0x1p-126};
  };
  def.check = [](const Args& args) { check_rows(args, {kX, kY}); };
  def.work_per_row = [](const Problem& p) {
    return 2.0 * static_cast<double>(p.dims[kK]) * static_cast<double>(p.dims[kF]);
  };
  append_cpu(def.implementations);
  append_composed(def.implementations);
  append_onednn(def.implementations);
  append_gemv_cuda(def.implementations);
  append_rows_cuda(def.implementations);
  append_wgmma_cuda(def.implementations);
  append_mma_cuda(def.implementations);
  append_fma_cuda(def.implementations);
  return def;
}

}  // namespace dlblas::mlp
