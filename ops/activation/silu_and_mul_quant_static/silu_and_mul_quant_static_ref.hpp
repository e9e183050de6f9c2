// The oracle of silu_and_mul_quant_static: codes of y = silu(g) · u, of x = [g | u], with the given
// scale. Read next: ops/activation/gated_codes_ref.hpp, which has the formula and the error it
// allows.
#pragma once

#include "ops/activation/gated_codes_ref.hpp"

namespace dlblas::activation {

template <typename Row>
void silu_and_mul_quant_static_row(Row& row) {
  gated_codes_static_row<SiluPoint>(row);
}

}  // namespace dlblas::activation
