// The oracle of gelu_tanh_and_mul: y = gelu_tanh(g) · u, of x = [g | u], in f64. Read next:
// ops/activation/gates_ref.hpp (the formula, and the error it allows),
// gelu_tanh_and_mul_program.hpp.
#pragma once

#include "ops/activation/gates_ref.hpp"

namespace dlblas::activation {

template <typename Row>
void gelu_tanh_and_mul_row(Row& row) {
  gated_row<GeluTanhPoint>(row);
}

}  // namespace dlblas::activation
