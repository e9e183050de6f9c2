// The oracle of add_rms_norm and the error it allows: see ReferenceFn and BoundFn.
// Read next: ops/norm/add_rms_norm/add_rms_norm_ref.cpp.
#pragma once

#include "registry/operator.hpp"

namespace dlblas::norm {

void add_rms_norm_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                            OracleOut* out);
Bound add_rms_norm_bound(const Problem& problem, int result);

}  // namespace dlblas::norm
