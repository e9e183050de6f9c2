// The oracle of microscaling formats' values: q · scale in f32, which is exact within its range,
// then one rounding for the factor of the whole tensor. Read next: mx_values.hpp,
// ops/quant/mx_ref.hpp.
#pragma once

#include "ops/quant/mx_ref.hpp"

namespace dlblas::quant {

/// The value of an e2m1 code.
DLBLAS_ORACLE double f4_value_of(int code) {
  const int size = code % 8;
  const double v = size < 4 ? 0.5 * size : size < 7 ? size - 2 : 6;
  return code < 8 ? v : -v;
}

/// `packed`: q holds two e2m1 codes per element. `global`: the tensor, or -1.
template <typename Row>
void mx_values_row(Row& row, bool packed, std::int64_t group, int global) {
  const auto per = packed ? 2 : 1;
  const double whole = global < 0 ? 1 : row.value(global);
  row.each(row.size(1) * per, [&](auto c) {
    const double code = row.load(0, c / per);
    const int bits = packed ? static_cast<int>(code) : 0;
    const double v = packed ? f4_value_of(c % 2 ? bits / 16 : bits % 16) : code;
    row.store(0, c, f32_of(f32_of(v * row.load(1, c / group)) * whole), 0);
  });
}

}  // namespace dlblas::quant
