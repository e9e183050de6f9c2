// The oracle of scale_rows: y = x · scale · (weight + weight_offset), bit-exact. A product of two
// f32 values is exact in f64, so each rounding here is the one that a kernel makes. Read next:
// ops/common/oracle_text.hpp, scale_rows_program.hpp.
#pragma once

#include "ops/norm/norm_ref.hpp"

namespace dlblas::norm {

enum ScaleRowsTensor : int { kScaleRowsX, kScaleRowsScale, kScaleRowsWeight };
enum ScaleRowsScalar : int { kScaleRowsOffset, kScaleRowsCast };
enum ScaleRowsLetter : int { kScaleRowsT, kScaleRowsC };

template <typename Row>
void scale_rows_row(Row& row) {
  const double scale = row.load(kScaleRowsScale, 0);
  const bool weighted = row.has(kScaleRowsWeight), cast = row.integer(kScaleRowsCast) != 0;
  const auto offset = static_cast<float>(row.scalar(kScaleRowsOffset));
  const DType dtype = row.result_dtype(0);
  row.each(row.size(kScaleRowsC), [&](auto c) {
    double y = round_to(DType::kF32, row.load(kScaleRowsX, c) * scale);
    if (weighted) {
      if (cast) y = round_to(dtype, y);
      const auto w = static_cast<float>(row.load_column(kScaleRowsWeight, c));
      const float factor = offset != 0 ? w + offset : w;
      y = round_to(DType::kF32, y * static_cast<double>(factor));
    }
    y = round_to(dtype, y);
    row.store_as_is(0, c, y, std::abs(y));
  });
}

}  // namespace dlblas::norm
