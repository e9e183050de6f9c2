// What both row programs, rms_norm and add_rms_norm, tell their skeletons: scalars, options and
// measured defaults. Read next: ops/norm/rms_norm/rms_norm_program.hpp, src/kernels/rows.hpp.
#pragma once

#include "kernels/rows.hpp"
#include "ops/norm/norm_ops.hpp"

namespace dlblas::norm {

/// Refuses a weight_offset without a weight, and an eps below 0.
void check_scalars(const Args& args);

/// Adds the check of its arguments and the operator's implementations to `def`, whose schema is
/// set: the row program `program` with these operands, and the hand-written kernels, which have no
/// counterpart among the skeletons. `tensors` must live as long as the process.
void add_norm_implementations(OperatorDef& def, const NormTensors& tensors,
                              std::string_view program, std::vector<std::string_view> operands);

}  // namespace dlblas::norm
