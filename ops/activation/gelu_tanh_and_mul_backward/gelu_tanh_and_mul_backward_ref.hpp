// The oracle of gelu_tanh_and_mul's gradient, in f64: dgate = dy · u · gelu_tanh′(g), dup = dy ·
// gelu_tanh(g), of x = [g | u]. Read next: ops/activation/gates_ref.hpp (the formula, and the error
// it allows), gelu_tanh_and_mul_backward_program.hpp.
#pragma once

#include "ops/activation/gates_ref.hpp"

namespace dlblas::activation {

template <typename Row>
void gelu_tanh_and_mul_backward_row(Row& row) {
  gated_backward_row<GeluTanhPoint>(row);
}

}  // namespace dlblas::activation
