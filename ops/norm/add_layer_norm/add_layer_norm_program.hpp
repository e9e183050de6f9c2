// layer_norm of h = round(x + residual), which is residual_out; the statistics are those of h.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/norm/layer_norm/layer_norm_program.hpp"
#include "ops/norm/of_sum.hpp"

namespace dlblas::norm {

template <typename Target>
struct AddLayerNorm : OfSum<Target, LayerNorm<Target>> {};

}  // namespace dlblas::norm
