// rms_norm_quant_group of h = round(x + residual), which is residual_out.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/norm/rms_norm_quant_group/rms_norm_quant_group_program.hpp"

namespace dlblas::norm {

template <typename Target>
struct AddRmsNormQuantGroup : OfSum<Target, RmsNormQuantGroup<Target>> {};

}  // namespace dlblas::norm
