// The oracle of gelu, in f64. Read next: ops/activation/gates_ref.hpp (the formula, and
// the error it allows), gelu_program.hpp.
#pragma once

#include "ops/activation/gates_ref.hpp"

namespace dlblas::activation {

template <typename Row>
void gelu_row(Row& row) {
  plain_row<GeluPoint>(row);
}

}  // namespace dlblas::activation
