// selective_scan, a state-space model over whole sequences: schema, oracle and implementations.
// Letters G and R: groups that share B and C, and channels per group.
// Read next: selective_scan_ref.cpp (what it computes), selective_scan_cpu.cpp and
// selective_scan.cuh (how).
#include "ops/ssm/selective_scan/selective_scan.hpp"

#include "ops/ssm/step_oracle.hpp"

namespace dlblas::ssm {

OperatorDef selective_scan();
OperatorDef selective_scan() {
  OperatorDef def;
  def.family = "ssm";
  def.schema =
      "selective_scan(u: f[batch, G*R, L], delta: like(u)|f32[batch, G*R, L] ~ positive, "
      "A: like(u)|f32[G*R, N] ~ negative, B: like(u)|f32[batch, G, N, L], "
      "C: like(u)|f32[batch, G, N, L], D: like(u)|f32[G*R]?, "
      "initial_state: like(u)|f32[batch, G*R, N]?, z: like(u)[batch, G*R, L]?, "
      "delta_bias: like(u)|f32[G*R]?, delta_softplus: bool = false) "
      "-> (y: like(u)[batch, G*R, L], state: f32[batch, G*R, N]) "
      "where batch: bucket(tokens), L: bucket(tokens)";
  def.formula =
      "δ_t = softplus(delta_t + delta_bias); h_t = e^(δ_t·A)·h_{t−1} + δ_t·u_t·B_t; "
      "y_t = (Σ_N C_t·h_t + D·u_t)·silu(z_t); state = h_L";
  def.letters = {"batch", "G", "R", "L", "N"};
  def.reference = scan::reference;
  def.bound = [](const Problem& problem, int judged) {
    return step_bound(problem.tensors[judged == 0 ? scan::kY : scan::kState].dtype);
  };
  def.work_per_row = [](const Problem& problem) {
    return 100.0 * static_cast<double>(problem.dims[scan::kN]) *
           static_cast<double>(problem.dims[scan::kL]);
  };
  def.implementations = scan::cpu();
  def.implementations.push_back(scan::cuda());
  return def;
}

}  // namespace dlblas::ssm
