// The oracle of the scaled products, for operators made of them. Read next: scaled_ref.cpp.
#pragma once

#include "registry/operator.hpp"

namespace dlblas::gemm::scaled {

/// The listed rows of a scaled_mm_channel call.
void channel_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                       OracleOut* out);
/// Allows the error of the sum; below f32's normal range, its smallest step per group; then one
/// rounding to the result's dtype.
Bound bound(const Problem& problem, int judged);

}  // namespace dlblas::gemm::scaled
