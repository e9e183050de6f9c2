// The gradient of gelu_and_mul on rows: dx = [dgate | dup] of x = [gate | up]. In f32, one
// rounding. Compiled by NVRTC and, per instruction set, by the build; see ops/activation/gated.hpp.
#pragma once

#include "ops/activation/gated.hpp"

namespace dlblas::activation {

template <typename Target>
struct GeluAndMulBackward : GatedBackward<Target, GeluGate> {};

}  // namespace dlblas::activation
