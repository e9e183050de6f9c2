// Letters and scalars of the operators of the norm family that have a weight, for the host and for
// NVRTC. Read next: ops/norm/norm_ops.hpp, ops/norm/norm_ref.hpp.
#pragma once

namespace dlblas::norm {

/// Letters and scalars, the same in all schemas; the operators assert the letters at registration.
/// kCodesGroup: of the operators that have groups of columns.
enum Letter : int { kT, kC, kCodesGroup };
enum Scalar : int { kEps, kWeightOffset, kCastBeforeWeight };
enum KeyScalar : int { kKeyCastBeforeWeight };

}  // namespace dlblas::norm
