// The oracle of lora_shrink. Read next: ops/gemm/lora/lora_ref.hpp, which has the formula.
#pragma once

#include "ops/gemm/lora/lora_ref.hpp"

namespace dlblas::gemm {

template <typename Row>
void lora_shrink_row(Row& row) {
  lora_row(row);
}

}  // namespace dlblas::gemm
