// The oracle of moe_unpermute, in f64: y[t] = Σ_j weights[t, j] · rows[inverse[t, j]].
// The error it allows, in units of 2^-24: a rounding of each product, and of each partial sum, or
// what roundings of so many walk apart, where that is less (device/oracle/sum_error.hpp). The last
// one is, for f32, the store's. Read next: moe_unpermute.cuh.
#pragma once

#include <cmath>

#include "core/element.hpp"
#include "registry/operator.hpp"

namespace dlblas::moe {

enum UnpermuteTensor : int { kUnpermuteRows, kUnpermuteInverse, kUnpermuteWeights, kUnpermuteY };
enum UnpermuteLetter : int { kUnpermuteR, kUnpermuteC, kUnpermuteT, kUnpermuteK };

inline void moe_unpermute_reference(const Args& args, const std::int64_t* rows,
                                    std::int64_t num_rows, OracleOut* out) {
  const TensorView &x = args.tensors[kUnpermuteRows], &inverse = args.tensors[kUnpermuteInverse];
  const TensorView& weights = args.tensors[kUnpermuteWeights];
  const std::int64_t choices = args.letters[kUnpermuteK], width = args.letters[kUnpermuteC];
  SumModel model = sum_model(choices, false);
  model.alike = 1.5 * static_cast<double>(choices);  // one chain, however long
  for (std::int64_t r = 0; r < num_rows; ++r)
    for (std::int64_t c = 0; c < width; ++c) {
      SumWalk walk;
      double partial = 0, products = 0;
      bool first = true;
      for (std::int64_t j = 0; j < choices; ++j) {
        const double at =
            load_element(inverse, rows[r] * inverse.strides[0] + j * inverse.strides[1]);
        if (!(at >= 0 && at < static_cast<double>(args.letters[kUnpermuteR]))) continue;
        const double weight =
            load_element(weights, rows[r] * weights.strides[0] + j * weights.strides[1]);
        const double value =
            load_element(x, static_cast<std::int64_t>(at) * x.strides[0] + c * x.strides[1]);
        walk.add(weight * value);
        products += std::abs(weight * value);
        if (!first) partial += std::abs(walk.sum());
        first = false;
      }
      const double value = round_to(args.result(0).dtype, walk.sum());
      out[0].value[r * width + c] = std::isinf(value) ? value : walk.sum();
      out[0].magnitude[r * width + c] =
          products + std::min(partial, sum_error(model, walk.sizes()));
    }
}

}  // namespace dlblas::moe
