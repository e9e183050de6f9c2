// The oracle of quantize_channel: one scale per column. Read next: ops/quant/tiles_ref.hpp.
#pragma once

#include "ops/quant/tiles_ref.hpp"

namespace dlblas::quant {

template <typename Row>
void quantize_channel_shared(Row& row) {
  tiles::add_maxima<QuantTile::kChannel>(row);
}
template <typename Row>
void quantize_channel_row(Row& row) {
  tiles::tiles_row<QuantTile::kChannel>(row);
}

}  // namespace dlblas::quant
