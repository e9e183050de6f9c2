// The oracle of quantize_tensor: one scale. Read next: ops/quant/tiles_ref.hpp.
#pragma once

#include "ops/quant/tiles_ref.hpp"

namespace dlblas::quant {

template <typename Row>
void quantize_tensor_shared(Row& row) {
  tiles::add_maxima<QuantTile::kTensor>(row);
}
template <typename Row>
void quantize_tensor_row(Row& row) {
  tiles::tiles_row<QuantTile::kTensor>(row);
}

}  // namespace dlblas::quant
