// The oracle of moe_sum, in f64: y = Σ_k x.
// The error it allows: f32 adds from first to last, so one rounding of each partial sum, or the
// random walk of so many roundings, if that is less (device/oracle/sum_error.hpp). In f32, the last
// one is the store's. Read next: ops/common/oracle_text.hpp, moe_sum_program.hpp.
#pragma once

#include "device/oracle/sum_error.hpp"
#include "ops/common/oracle_text.hpp"

namespace dlblas::moe {

enum MoeSumTensor : int { kMoeSumX, kMoeSumY };
enum MoeSumLetter : int { kMoeSumT, kMoeSumK, kMoeSumC };

template <typename Row>
void moe_sum_row(Row& row) {
  const std::int64_t layers = row.size(kMoeSumK), first = row.index() * layers;
  row.each(row.size(kMoeSumC), [&](auto c) {
    SumWalk walk;
    double partial = 0;
    for (std::int64_t i = 0; i < layers; ++i) {
      walk.add(row.load_row(kMoeSumX, first + i, c));
      if (i > 0) partial += std::abs(walk.sum());
    }
    SumModel model = sum_model(layers, false);
    model.alike = 1.5 * static_cast<double>(layers);  // one chain, however long
    const double walked = sum_error(model, walk.sizes());
    row.store(0, c, walk.sum(), std::min(partial, walked));
  });
}

}  // namespace dlblas::moe
