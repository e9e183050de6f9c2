// The oracle of the gradient of silu, in f64. Read next: ops/activation/gates_ref.hpp (the formula,
// and the error it allows), silu_backward_program.hpp.
#pragma once

#include "ops/activation/gates_ref.hpp"

namespace dlblas::activation {

template <typename Row>
void silu_backward_row(Row& row) {
  plain_backward_row<SiluPoint>(row);
}

}  // namespace dlblas::activation
