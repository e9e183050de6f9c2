// What cross_entropy_rows and its gradient say alike of their arguments. Read next:
// cross_entropy_rows/cross_entropy_rows.cpp.
#pragma once

#include "device/row/call.hpp"
#include "registry/operator.hpp"

namespace dlblas::loss {

/// Scalars in range, and the sum of weights where smoothing needs it. Throws Error(kArgument).
void check_cross_entropy(const Args& args, int weight, int weight_sum);
void fill_cross_entropy(const Args& args, RowCall& call);
void choose_cross_entropy(const Problem& problem, int weight, std::int32_t* options);

}  // namespace dlblas::loss
