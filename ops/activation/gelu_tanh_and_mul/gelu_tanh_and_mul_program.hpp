// gelu_tanh_and_mul on rows: y = gelu_tanh(gate) · up, of x = [gate | up]. Both halves in f32, one
// rounding. Compiled by NVRTC and, per instruction set, by the build; see ops/activation/gated.hpp.
#pragma once

#include "ops/activation/gated.hpp"

namespace dlblas::activation {

template <typename Target>
struct GeluTanhAndMul : Gated<Target, GeluTanhGate> {};

}  // namespace dlblas::activation
