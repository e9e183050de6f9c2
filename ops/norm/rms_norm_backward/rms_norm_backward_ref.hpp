// The oracle of rms_norm_backward and the error it allows: see ReferenceFn and BoundFn.
// Read next: ops/norm/rms_norm_backward/rms_norm_backward_ref.cpp.
#pragma once

#include "registry/operator.hpp"

namespace dlblas::norm {

void rms_norm_backward_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                                 OracleOut* out);
Bound rms_norm_backward_bound(const Problem& problem, int result);

}  // namespace dlblas::norm
