// The oracle of gelu_and_mul: y = gelu(g) · u, of x = [g | u], in f64. Read next:
// ops/activation/gates_ref.hpp (the formula, and the error it allows), gelu_and_mul_program.hpp.
#pragma once

#include "ops/activation/gates_ref.hpp"

namespace dlblas::activation {

template <typename Row>
void gelu_and_mul_row(Row& row) {
  gated_row<GeluPoint>(row);
}

}  // namespace dlblas::activation
