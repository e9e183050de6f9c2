// gelu_tanh on rows, element by element, in f32, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see ops/activation/plain.hpp.
#pragma once

#include "ops/activation/plain.hpp"

namespace dlblas::activation {

template <typename Target>
struct GeluTanh : Plain<Target, GeluTanhGate> {};

}  // namespace dlblas::activation
