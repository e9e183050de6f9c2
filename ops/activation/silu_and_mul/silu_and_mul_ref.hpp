// The oracle of silu_and_mul: y = silu(g) · u, of x = [g | u], in f64. Read next:
// ops/activation/gates_ref.hpp (the formula, and the error it allows), silu_and_mul_program.hpp.
#pragma once

#include "ops/activation/gates_ref.hpp"

namespace dlblas::activation {

template <typename Row>
void silu_and_mul_row(Row& row) {
  gated_row<SiluPoint>(row);
}

}  // namespace dlblas::activation
