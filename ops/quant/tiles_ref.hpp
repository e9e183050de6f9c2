// The oracle of scales over tiles, in f64: the largest |x| of each tile, found by all rows
// together, then scales and codes. Read next: ops/common/quant_ref.hpp (what is allowed),
// ops/common/oracle_text.hpp.
#pragma once

#include "ops/common/quant_ref.hpp"
#include "ops/quant/tiles_config.hpp"

namespace dlblas::quant::tiles {

enum Tensor : int { kX, kQ, kScale };
enum Letter : int { kT, kK };
enum Scalar : int { kDtype, kScaleDtype };

/// Tiles along a row, and rows of tiles.
constexpr std::int64_t tiles_across(QuantTile tile, std::int64_t width) {
  return tile == QuantTile::kTensor    ? 1
         : tile == QuantTile::kChannel ? width
                                       : (width + kQuantBlock - 1) / kQuantBlock;
}
constexpr std::int64_t tiles_down(QuantTile tile, std::int64_t rows) {
  return tile == QuantTile::kBlock ? (rows + kQuantBlock - 1) / kQuantBlock : 1;
}
/// The tile of an element.
constexpr std::int64_t tile_of(QuantTile tile, std::int64_t width, std::int64_t row,
                               std::int64_t column) {
  if (tile != QuantTile::kBlock) return tile == QuantTile::kTensor ? 0 : column;
  return row / kQuantBlock * tiles_across(tile, width) + column / kQuantBlock;
}

template <QuantTile kTile, typename Row>
void add_maxima(Row& row) {
  const std::int64_t width = row.size(kK), t = row.index();
  if constexpr (kTile == QuantTile::kTensor) {
    const double most = row.max(width, [&](auto c) { return std::abs(row.load(kX, c)); });
    if (width > 0) row.keep_most(0, most);
  } else {
    row.each(width, [&](auto c) {
      row.keep_most(tile_of(kTile, width, t, c), std::abs(row.load(kX, c)));
    });
  }
}

template <QuantTile kTile, typename Row>
void tiles_row(Row& row) {
  const std::int64_t rows = row.size(kT), width = row.size(kK), at = row.index();
  const std::int64_t across = tiles_across(kTile, width);
  const DType type = row.result_dtype(0);
  const bool powers = row.integer(kScaleDtype) != 0;
  if (at < tiles_down(kTile, rows))
    row.each(across, [&](auto i) {
      const double scale = scale_of(row.kept(at * across + i), type, powers);
      row.store_as_is(1, i, scale, scale);
    });
  if (at < rows)
    row.each(width, [&](auto c) {
      const double scale = scale_of(row.kept(tile_of(kTile, width, at, c)), type, powers);
      store_code(row, type, c, row.load(kX, c) / scale);
    });
}

#if !defined(__CUDACC_RTC__)
template <QuantTile kTile>
kernels::SharedSize shared_size(const Args& args) {
  const std::int64_t rows = args.letters[kT], width = args.letters[kK];
  return {rows, tiles_across(kTile, width) * tiles_down(kTile, rows)};
}
#endif

}  // namespace dlblas::quant::tiles
