// The oracle of scales over tiles, in f64, and the parts of a definition. A scale's tile is looked
// at once, however many of its rows are asked for. Read next: ops/quant_ref.hpp (what is allowed).
#include "ops/quant/tiles.hpp"

#include <map>

#include "kernels/row_reference.hpp"
#include "ops/quant_ref.hpp"

namespace dlblas::quant::tiles {
namespace {

/// The scales of a row of tiles.
template <QuantTile kTile>
std::vector<double> scales_of(const Args& args, std::int64_t tile) {
  const TensorView& x = args.tensors[kX];
  const std::int64_t width = args.letters[kK], rows = args.letters[kT];
  const bool blocks = kTile == QuantTile::kBlock;
  const std::int64_t columns = blocks ? kQuantBlock : kTile == QuantTile::kChannel ? 1 : width;
  const std::int64_t begin = blocks ? tile * kQuantBlock : 0;
  const std::int64_t end = blocks ? std::min(rows, begin + kQuantBlock) : rows;
  const std::int64_t count = kTile == QuantTile::kTensor ? 1 : (width + columns - 1) / columns;
  std::vector<double> scales(static_cast<std::size_t>(count));
  const Rows map = rows_of(x);
  for (std::int64_t t = begin; t < end; ++t)
    for (std::int64_t c = 0; c < width; ++c) {
      const double v = std::abs(load_element(x, map.offset(t) + c * x.strides[x.rank - 1]));
      double& most = scales[static_cast<std::size_t>(c / columns)];
      if (v > most || std::isnan(v)) most = v;
    }
  for (double& scale : scales)
    scale = scale_of(scale, args.result(0).dtype, args.scalars[kScaleDtype].i != 0);
  return scales;
}

template <QuantTile kTile>
void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out) {
  const std::int64_t width = args.letters[kK], count = args.letters[kT];
  const bool blocks = kTile == QuantTile::kBlock;
  std::map<std::int64_t, std::vector<double>> made;
  const auto scales = [&](std::int64_t tile) -> const std::vector<double>& {
    const auto found = made.find(tile);
    return found != made.end() ? found->second
                               : made.emplace(tile, scales_of<kTile>(args, tile)).first->second;
  };
  const std::int64_t tiles = blocks ? (count + kQuantBlock - 1) / kQuantBlock : 1;
  kernels::HostRow row(args, out);
  for (std::int64_t i = 0; i < num_rows; ++i) {
    if (rows[i] < tiles) {
      const std::vector<double>& all = scales(rows[i]);
      const std::int64_t first = i * static_cast<std::int64_t>(all.size());
      for (std::size_t at = 0; at < all.size(); ++at) {
        const auto place = first + static_cast<std::int64_t>(at);
        out[1].value[place] = out[1].magnitude[place] = all[at];
      }
    }
    if (rows[i] >= count) continue;
    const std::vector<double>& all = scales(blocks ? rows[i] / kQuantBlock : 0);
    row.move_to(rows[i], i);
    for (std::int64_t c = 0; c < width; ++c) {
      const std::int64_t at = blocks ? c / kQuantBlock : kTile == QuantTile::kChannel ? c : 0;
      store_code(row, row.result_dtype(0), c, row.load(kX, c) / all[static_cast<std::size_t>(at)]);
    }
  }
}

}  // namespace

void define(OperatorDef& def, QuantTile tile) {
  def.letters = {tile == QuantTile::kBlock ? "N" : "T", "K"};
  def.reference = tile == QuantTile::kTensor    ? reference<QuantTile::kTensor>
                  : tile == QuantTile::kChannel ? reference<QuantTile::kChannel>
                                                : reference<QuantTile::kBlock>;
  def.reference_is_whole = tile != QuantTile::kBlock;
  def.bound = [](const Problem&, int judged) { return quantize_bound(judged); };
  def.work_per_row = [](const Problem& problem) {
    return 12.0 * static_cast<double>(problem.dims[kK]);
  };
  def.implementations = cpu(tile);
  for (Implementation& implementation : cuda(tile))
    def.implementations.push_back(std::move(implementation));
}

}  // namespace dlblas::quant::tiles
