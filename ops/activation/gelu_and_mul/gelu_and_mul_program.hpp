// gelu_and_mul on rows: y = gelu(gate) · up, of x = [gate | up]. Both halves in f32, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see ops/activation/gated.hpp.
#pragma once

#include "ops/activation/gated.hpp"

namespace dlblas::activation {

template <typename Target>
struct GeluAndMul : Gated<Target, GeluGate> {};

}  // namespace dlblas::activation
