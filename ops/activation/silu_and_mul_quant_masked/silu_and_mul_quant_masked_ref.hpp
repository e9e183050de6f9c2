// The oracle of silu_and_mul_quant_masked: codes of y = silu(g) · u in the rows that an expert
// fills; the others are undefined. Read next: ops/activation/gated_codes_ref.hpp, which has the
// formula and the error it allows.
#pragma once

#include "ops/activation/gated_codes_ref.hpp"

namespace dlblas::activation {

enum MaskedTensor : int { kMaskedX, kMaskedM, kMaskedQ, kMaskedScale };
enum MaskedLetter : int { kMaskedE, kMaskedRows, kMaskedF, kMaskedGroup };

template <typename Row>
void silu_and_mul_quant_masked_row(Row& row) {
  const auto width = row.size(kMaskedF), group = std::min(row.size(kMaskedGroup), width);
  const auto expert = row.index() / row.size(kMaskedRows);
  const auto place = row.index() - expert * row.size(kMaskedRows);
  const bool there = static_cast<double>(place) < row.load_column(kMaskedM, expert);
  for (std::int64_t begin = 0, at = 0; begin < width; begin += group, ++at) {
    const std::int64_t end = std::min(width, begin + group);
    if (there) {
      store_gated_codes<SiluPoint>(row, begin, end, at);
    } else {
      row.store(kCodesScale, at, 0, -1);
      row.each(end - begin, [&](auto c) { row.store(kCodesQ, begin + c, 0, -1); });
    }
  }
}

}  // namespace dlblas::activation
