// selective_state_update, one token of a state-space model per sequence: schema, oracle and
// implementations. Letters G and R: groups that share B and C, and heads per group.
// Read next: selective_state_update_ref.hpp (what it computes), selective_state_update_cpu.cpp and
// selective_state_update.cuh (how).
#include "ops/ssm/selective_state_update/selective_state_update.hpp"

namespace dlblas::ssm {

OperatorDef selective_state_update();
OperatorDef selective_state_update() {
  OperatorDef def;
  def.family = "ssm";
  def.schema =
      "selective_state_update(state: f[batch, G*R, P, N]!, x: f[batch, G*R, P], "
      "dt: like(x)|f32[batch, G*R, P] ~ positive, A: like(x)|f32[G*R, P, N] ~ negative, "
      "B: like(x)|f32[batch, G, N], C: like(x)|f32[batch, G, N], D: like(x)|f32[G*R, P]?, "
      "z: like(x)[batch, G*R, P]?, dt_bias: like(x)|f32[G*R, P]?, dt_softplus: bool = false) "
      "-> y: like(x)[batch, G*R, P] where batch: bucket(tokens)";
  def.formula =
      "dt' = softplus(dt + dt_bias); state = e^(dt'·A)·state + dt'·x·B; "
      "y = (Σ_N C·state + D·x)·silu(z)";
  def.letters = {"batch", "G", "R", "P", "N"};
  kernels::set_row_oracle<selective_state_update_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int judged) {
    return step_bound(problem.tensors[judged == 0 ? update::kY : update::kState].dtype);
  };
  // A row of the state, and a row of y beside it in the oracle's memory.
  def.work_per_row = [](const Problem& problem) {
    return 100.0 * static_cast<double>(problem.dims[update::kN]) +
           static_cast<double>(problem.dims[update::kP]);
  };
  def.implementations = update::cpu();
  def.implementations.push_back(update::cuda());
  return def;
}

}  // namespace dlblas::ssm
