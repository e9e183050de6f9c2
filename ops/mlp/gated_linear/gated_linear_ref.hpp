// The oracle of gated_linear: y = act(x · Wgᵀ) ⊙ (x · Wuᵀ), in f64. Allowed error, in units
// u = 2^-24: for each sum see ops/common/dot_ref.hpp, for the gate and the product
// ops/mlp/gate_ref.hpp. Read next: ops/common/oracle_text.hpp, gated_linear.cpp.
#pragma once

#include "ops/common/dot_ref.hpp"
#include "ops/common/oracle_text.hpp"
#include "ops/mlp/gate_ref.hpp"

namespace dlblas::mlp {

enum GatedLinearTensor : int { kX, kGate, kUp, kY };
enum GatedLinearLetter : int { kT, kK, kF };
enum GatedLinearScalar : int { kActivation };

template <typename Row>
void gated_linear_row(Row& row) {
  const auto gate = static_cast<Gate>(row.integer(kActivation));
  const auto x = [&](auto k) { return row.load(kX, k); };
  row.each(row.size(kF), [&](auto c) {
    store_gated(row, c, row.size(kK), gate, dot_of(row, row.dtype(kX), row.size(kK), x, kGate, c),
                dot_of(row, row.dtype(kX), row.size(kK), x, kUp, c));
  });
}

}  // namespace dlblas::mlp
