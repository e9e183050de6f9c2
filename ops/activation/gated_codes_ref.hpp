// The oracles of gated products with 8-bit results: y as in gates_ref.hpp, never rounded, then
// scales and codes as in quant_ref.hpp. A scale has the largest error of its ys; a quotient has 5
// roundings of its own (quant_ref.hpp), the error that its scale has from the ys, and that of its
// own y. Read next: gates_ref.hpp, ops/common/quant_ref.hpp, gated_codes.hpp.
#pragma once

#include "ops/activation/gates_ref.hpp"
#include "ops/common/quant_ref.hpp"

namespace dlblas::activation {

enum CodesLetter : int { kCodesGroup = 2 };
enum CodesResult : int { kCodesQ, kCodesScale };
enum StaticCodesTensor : int { kStaticScale = 1 };

using quant::MadeValue;

template <typename Gate, typename Row>
MadeValue gated_value(const Row& row, std::int64_t c) {
  const double up = row.load(kX, row.width(kX) / 2 + c);
  const GatePoint gate = Gate::at(row.load(kX, c));
  const double y = gate.value * up;
  const double off = kSecondOrder * (gate.value_off + std::abs(gate.value)) + kTiny;
  return {std::isinf(round_to(DType::kF32, y)) ? std::copysign(infinity(), y) : y,
          kRounding * (std::abs(up) * off + std::abs(y)) + 0x1p-149};
}

/// Columns [begin, end): codes, and the scale, column `at`.
template <typename Gate, typename Row>
void store_gated_codes(Row& row, std::int64_t begin, std::int64_t end, std::int64_t at) {
  quant::store_made_codes(row, begin, end, at, [&](auto c) { return gated_value<Gate>(row, c); });
}

template <typename Gate, typename Row>
void gated_codes_token_row(Row& row) {
  store_gated_codes<Gate>(row, 0, row.size(kF), 0);
}
template <typename Gate, typename Row>
void gated_codes_group_row(Row& row) {
  const auto width = row.size(kF), group = row.size(kCodesGroup);
  for (std::int64_t begin = 0, at = 0; begin < width; begin += std::min(group, width), ++at)
    store_gated_codes<Gate>(row, begin, begin + std::min(group, width - begin), at);
}
template <typename Gate, typename Row>
void gated_codes_static_row(Row& row) {
  const double scale = row.value(kStaticScale);
  row.each(row.size(kF),
           [&](auto c) { quant::store_made_code(row, c, gated_value<Gate>(row, c), scale, 0); });
}

}  // namespace dlblas::activation
