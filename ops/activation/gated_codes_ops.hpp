// The definitions of gated products with 8-bit results, except their oracles.
// Read next: gated_codes_ops.cpp, silu_and_mul_quant_token/silu_and_mul_quant_token.cpp.
#pragma once

#include "kernels/rows.hpp"

namespace dlblas::activation {

/// What each scale covers; kStatic: the scale is given.
enum class CodesOf : std::uint8_t { kToken, kGroup, kStatic };

/// Schema, bound and row implementations of `name`(x) -> codes of x = [gate | up].
OperatorDef gated_codes(std::string_view name, std::string_view schema, std::string_view formula,
                        CodesOf of);

}  // namespace dlblas::activation
