// Rounded-up quotients and multiples of sizes. In: non-negative sizes.
#pragma once

#include <cstdint>

namespace dlblas {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

}  // namespace dlblas
