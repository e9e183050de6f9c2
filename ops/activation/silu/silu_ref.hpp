// The oracle of silu, in f64. Read next: ops/activation/gates_ref.hpp (the formula, and
// the error it allows), silu_program.hpp.
#pragma once

#include "ops/activation/gates_ref.hpp"

namespace dlblas::activation {

template <typename Row>
void silu_row(Row& row) {
  plain_row<SiluPoint>(row);
}

}  // namespace dlblas::activation
