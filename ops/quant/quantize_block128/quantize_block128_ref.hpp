// The oracle of quantize_block128: one scale per 128 by 128 elements. Read next:
// ops/quant/tiles_ref.hpp.
#pragma once

#include "ops/quant/tiles_ref.hpp"

namespace dlblas::quant {

template <typename Row>
void quantize_block128_shared(Row& row) {
  tiles::add_maxima<QuantTile::kBlock>(row);
}
template <typename Row>
void quantize_block128_row(Row& row) {
  tiles::tiles_row<QuantTile::kBlock>(row);
}

}  // namespace dlblas::quant
