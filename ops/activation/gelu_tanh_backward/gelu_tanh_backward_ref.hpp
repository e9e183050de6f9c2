// The oracle of the gradient of gelu_tanh, in f64. Read next: ops/activation/gates_ref.hpp (the
// formula, and the error it allows), gelu_tanh_backward_program.hpp.
#pragma once

#include "ops/activation/gates_ref.hpp"

namespace dlblas::activation {

template <typename Row>
void gelu_tanh_backward_row(Row& row) {
  plain_backward_row<GeluTanhPoint>(row);
}

}  // namespace dlblas::activation
