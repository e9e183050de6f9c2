// The oracle of partial_rotary_heads' gradient in k_pe: Σ over heads of the incoming gradient, in
// f64, rotated back. The error it allows for a sum: f32 adds from first to last, so one rounding of
// each partial sum, or the random walk of so many roundings, if that is less
// (device/oracle/sum_error.hpp). Read next: ops/rope/latent_heads_ref.hpp,
// partial_rotary_heads_sum_program.hpp.
#pragma once

#include "device/oracle/sum_error.hpp"
#include "ops/rope/latent_heads_ref.hpp"

namespace dlblas::rope {

enum PartialSumTensor : int { kPartialSumDk, kPartialSumCos, kPartialSumSin };
enum PartialSumLetter : int { kPartialSumT, kPartialSumH, kPartialSumDh };

template <typename Row>
void partial_rotary_heads_sum_row(Row& row) {
  const std::int64_t pairs = row.size(kPartialSumDh), heads = row.size(kPartialSumH);
  const LatentAngles<Row> angles = {row, kPartialSumCos, kPartialSumSin, row.index(), pairs};
  row.each(pairs, [&](auto i) {
    double y[2], off[2];
    for (int half = 0; half < 2; ++half) {
      SumWalk walk;
      double partial = 0;
      for (std::int64_t head = 0; head < heads; ++head) {
        walk.add(row.load_row(kPartialSumDk, row.index() * heads + head, half * pairs + i));
        if (head > 0) partial += std::abs(walk.sum());
      }
      SumModel model = sum_model(heads, false);
      model.alike = 1.5 * static_cast<double>(heads);  // one chain, however long
      y[half] = walk.sum(), off[half] = std::min(partial, sum_error(model, walk.sizes()));
    }
    turn_back(row, angles, 0, 0, i, y, off);
  });
}

}  // namespace dlblas::rope
