// The common parts of the definitions of scales over tiles. Read next: ops/quant/tiles_ref.hpp
// (what they compute), tiles.cuh, tiles_cpu.cpp (how).
#include "ops/quant/tiles.hpp"

namespace dlblas::quant::tiles {

void define(OperatorDef& def, QuantTile tile) {
  def.letters = {tile == QuantTile::kBlock ? "N" : "T", "K"};
  def.bound = [](const Problem&, int judged) { return quantize_bound(judged); };
  def.work_per_row = [](const Problem& problem) {
    return 12.0 * static_cast<double>(problem.dims[kK]);
  };
  def.implementations = cpu(tile);
  for (Implementation& implementation : cuda(tile))
    def.implementations.push_back(std::move(implementation));
}

}  // namespace dlblas::quant::tiles
