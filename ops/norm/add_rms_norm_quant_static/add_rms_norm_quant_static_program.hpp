// rms_norm_quant_static of h = round(x + residual), which is residual_out.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/norm/rms_norm_quant_static/rms_norm_quant_static_program.hpp"

namespace dlblas::norm {

template <typename Target>
struct AddRmsNormQuantStatic : OfSum<Target, RmsNormQuantStatic<Target>> {};

}  // namespace dlblas::norm
