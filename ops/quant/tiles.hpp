// Quantisation with a scale for all of x, for each column, or for 128×128 elements: what its
// operators share. Read next: ops/quant/quantize_block128/, tiles.cpp, tiles.cuh.
#pragma once

#include <vector>

#include "core/config.hpp"
#include "ops/quant/tiles_ref.hpp"
#include "registry/operator.hpp"

namespace dlblas::quant::tiles {

/// All but family, schema, formula and oracle of an operator (x, dtype, scale_dtype) -> (q, scale).
void define(OperatorDef& def, QuantTile tile);

std::vector<Implementation> cpu(QuantTile tile);
/// Of tiles that are read once, where they lie so that they can be; then any.
std::vector<Implementation> cuda(QuantTile tile);
/// One of the former: ops/quant/tiles_held.cuh.
Implementation cuda_held(QuantTile tile);

/// What kernels of a problem are compiled for.
QuantTilesTraits cuda_traits(const Problem& problem, QuantTile tile);
const TraitsTable<QuantTilesTraits>& cuda_traits_table();

}  // namespace dlblas::quant::tiles
