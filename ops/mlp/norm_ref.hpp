// Products of a normalised row, in f64: x̂ = x · rsqrt(mean_K(x²) + eps) · rms_w, then x̂ · Wᵀ.
// A kernel may round x̂ to x's dtype in between, or scale the product after its sum, with rounded
// weights. Either has an error of at most half a step of that dtype, 0.42 to 0.58 of it root mean
// square. These roundings are independent: 3 · √Σp² is at least five standard deviations of their
// sum. Equal elements all round to the same side, which moves a sum of one sign by the same
// fraction. The norm's own f32 roundings, two per element and the root's, count likewise. Together
// they never exceed Σ|p|. Read next: ops/common/mean_square.hpp, dot_ref.hpp.
#pragma once

#include "ops/common/dot_ref.hpp"
#include "ops/common/mean_square.hpp"

namespace dlblas::mlp {

/// One row of x, normalised.
template <typename Row>
class NormedRow {
 public:
  NormedRow(const Row& row, int x, int gain, std::int64_t width, double eps)
      : row_(row),
        x_(x),
        gain_(gain),
        width_(width),
        root_(norm::root_mean_square(row, width, eps, [&](auto k) { return row.load(x, k); })) {}

  double operator()(std::int64_t k) const {
    return row_.load(x_, k) * root_.factor * row_.load_column(gain_, k);
  }
  /// The product with row `at` of a weight.
  OffSum times(int weight, std::int64_t at) const {
    const DType dtype = row_.dtype(x_);
    const DotSum dot = dot_of(row_, dtype, width_, *this, weight, at);
    const FloatTraits traits = float_traits(dtype);
    const double size = dot.sizes.size, sum = std::abs(dot.sum);
    const double walk = std::sqrt(dot.sizes.squares), sided = size > 0 ? sum / size : 0;
    const double step = dtype == DType::kF32 ? 0 : traits.eps / 2 / kRounding;
    const double apart =
        std::min((3 * step + 3.5) * walk + step * sum * sided * sided, (step + 2) * size);
    const double tiny = (traits.tiny / 2 + 0x1p-126) / kRounding * dot.weights;
    return {dot.sum, std::hypot(dot.off, apart) + (root_.roundings - 2) * sum + tiny};
  }

 private:
  const Row& row_;
  int x_, gain_;
  std::int64_t width_;
  norm::RootMeanSquare root_;
};

}  // namespace dlblas::mlp
