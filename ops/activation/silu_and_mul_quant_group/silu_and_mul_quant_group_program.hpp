// silu_and_mul on rows with 8-bit results: y = silu(gate) · up in f32, q = y / scale rounded to
// nearest even, saturated; one scale per group of columns: scale = max |y| / largest.
// Compiled by NVRTC and, per instruction set, by the build; see ops/activation/gated_codes.hpp.
#pragma once

#include "ops/activation/gated_codes.hpp"

namespace dlblas::activation {

template <typename Target>
struct SiluAndMulQuantGroup : GatedCodesGroup<Target, SiluGate> {};

}  // namespace dlblas::activation
