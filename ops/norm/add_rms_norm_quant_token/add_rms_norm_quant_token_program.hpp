// rms_norm_quant_token of h = round(x + residual), which is residual_out.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/norm/rms_norm_quant_token/rms_norm_quant_token_program.hpp"

namespace dlblas::norm {

template <typename Target>
struct AddRmsNormQuantToken : OfSum<Target, RmsNormQuantToken<Target>> {};

}  // namespace dlblas::norm
