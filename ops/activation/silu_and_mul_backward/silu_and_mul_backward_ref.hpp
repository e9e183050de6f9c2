// The oracle of silu_and_mul's gradient, in f64: dgate = dy · u · silu′(g), dup = dy · silu(g),
// of x = [g | u]. Read next: ops/activation/gates_ref.hpp (the formula, and the error it allows),
// silu_and_mul_backward_program.hpp.
#pragma once

#include "ops/activation/gates_ref.hpp"

namespace dlblas::activation {

template <typename Row>
void silu_and_mul_backward_row(Row& row) {
  gated_backward_row<SiluPoint>(row);
}

}  // namespace dlblas::activation
