// Quantisation with one scale for all of x, per column, or per 128×128 elements: what its operators
// share. Read next: ops/quant/quantize_block128/, tiles.cpp, tiles.cuh.
#pragma once

#include <vector>

#include "core/config.hpp"
#include "ops/quant/tiles_ref.hpp"
#include "registry/operator.hpp"

namespace dlblas::quant::tiles {

/// Sets all but family, schema, formula and oracle of an operator (x, dtype, scale_dtype) -> (q,
/// scale).
void define(OperatorDef& def, QuantTile tile);

std::vector<Implementation> cpu(QuantTile tile);
/// First the one that reads tiles once, for layouts that allow it; then the one for any layout.
std::vector<Implementation> cuda(QuantTile tile);
/// The former: ops/quant/tiles_held.cuh.
Implementation cuda_held(QuantTile tile);

/// What a problem's kernels are compiled for.
QuantTilesTraits cuda_traits(const Problem& problem, QuantTile tile);
const TraitsTable<QuantTilesTraits>& cuda_traits_table();

}  // namespace dlblas::quant::tiles
