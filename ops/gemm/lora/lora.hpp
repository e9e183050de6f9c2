// What lora_shrink and lora_expand share: the bound and the implementations of y[t] += scale ·
// x[t] · weight[token_lora[t]]ᵀ. Read next: lora_ref.hpp, lora_impl.cpp.
#pragma once

#include <vector>

#include "registry/operator.hpp"

namespace dlblas::gemm {

Bound lora_bound(const Problem& problem, int judged);
double lora_work_per_row(const Problem& problem);
std::vector<Implementation> lora_implementations();

}  // namespace dlblas::gemm
