// The oracle of silu_and_mul: y = g / (1 + e^−g) · u, of x = [g | u], in f64.
// The error it allows, in units u = 2^-24: e^−g is off by 4 + 1.25·|g| (a GPU's exponential, of a
// rounded product with a rounded log2 e). For g < 0 all of that is in 1 + e^−g, for g ≥ 0 half at
// most, and |g|·e^−g is small. An addition, a reciprocal (2), two products and what is of second
// order make 6 more. A GPU's reciprocal is 0 beyond 2^126: 2^-119·|u| absolute. Read next:
// ops/oracle_text.hpp, silu_and_mul_program.hpp.
#pragma once

#include "ops/oracle_text.hpp"

namespace dlblas::activation {

enum SiluAndMulTensor : int { kX, kY };
enum SiluAndMulLetter : int { kT, kF };

template <typename Row>
void silu_and_mul_row(Row& row) {
  const auto width = row.size(kF);
  row.each(width, [&](auto c) {
    const double gate = row.load(kX, c), up = row.load(kX, width + c);
    const double value = gate / (1 + std::exp(-gate)) * up;
    const double slope = gate < 0 ? 10 - 1.25 * gate : 8.5;
    // A gate of −inf is NaN; beyond −745 e^−g is infinite and the rest 0.
    const double size = std::abs(value) * (gate < -745 ? 1 : slope);
    row.store(0, c, value, size + std::abs(up) * (0x1p-119 / kRounding));
  });
}

}  // namespace dlblas::activation
