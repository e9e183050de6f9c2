// add_rms_norm of rows: h = round(x + residual), which is residual_out, and y = rms_norm(h).
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
// Read next: ops/norm/rms_norm/rms_norm_program.hpp, which has what follows the sum.
#pragma once

#include "ops/norm/of_sum.hpp"
#include "ops/norm/rms_norm/rms_norm_program.hpp"

namespace dlblas::norm {

template <typename Target>
struct AddRmsNorm : OfSum<Target, RmsNorm<Target>, 3> {
  static constexpr int kSquaresOf = AddRmsNorm::kResidualOut.index;
};

}  // namespace dlblas::norm
