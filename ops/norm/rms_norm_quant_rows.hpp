// What all row programs of rms_norm with 8-bit results tell their skeletons: bounds, checks,
// scalars. Read next: ops/norm/rms_norm_quant.hpp, src/kernels/rows.hpp.
#pragma once

#include "kernels/rows.hpp"

namespace dlblas::norm {

struct CodesOp {
  std::string_view program;
  std::vector<std::string_view> operands;
  bool grouped;       // a scale for each `group` columns
  bool static_scale;  // the scale is given: the second result is residual_out, if there is one
};

/// Refuses scalars out of range.
void check_codes(const Args& args);

/// Sets bound, work, check and implementations of `def`, whose schema and oracle are set.
void add_codes_implementations(OperatorDef& def, const CodesOp& op);

}  // namespace dlblas::norm
