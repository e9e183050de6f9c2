// The gradient of gelu_tanh_and_mul on rows: dx = [dgate | dup] of x = [gate | up]. In f32, one
// rounding. Compiled by NVRTC and, per instruction set, by the build; see ops/activation/gated.hpp.
#pragma once

#include "ops/activation/gated.hpp"

namespace dlblas::activation {

template <typename Target>
struct GeluTanhAndMulBackward : GatedBackward<Target, GeluTanhGate> {};

}  // namespace dlblas::activation
