// silu_and_mul on rows: y = silu(gate) · up, of x = [gate | up]. Both halves in f32, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see ops/activation/gated.hpp.
#pragma once

#include "ops/activation/gated.hpp"

namespace dlblas::activation {

template <typename Target>
struct SiluAndMul : Gated<Target, SiluGate> {};

}  // namespace dlblas::activation
