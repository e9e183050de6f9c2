// The oracle of the norm family. Plain f64 loops; the bound is derived below, not fitted.
//
// u = 2^-24 is the rounding of f32. A kernel may sum squares in f32 chains of at most kNormBlock /
// 4 terms (4 lanes is the narrowest vector) plus 16 for tails and reductions, and adds the chains
// in f64. All terms are positive, so the sum is off by a factor of at most (1 + k·u), with k the
// chain and one rounding of each square, and its reciprocal root by half of that. Four more
// roundings follow in f32: the scale, its product with h, weight + offset, the last product; two
// more cover second-order terms. Hence
//   |y − ref| ≤ (k/2 + 6)·u · |h·scale|·(|weight| + |offset|)  +  rounding to y's dtype.
// Read next: ops/norm/norm_simd.hpp.
#include "ops/norm/norm_ref.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/element.hpp"
#include "ops/norm/norm_config.hpp"
#include "ops/norm/norm_ops.hpp"

namespace dlblas::norm {
namespace {

constexpr double kUnit = 0x1p-24;

double relative_error(std::int64_t width) {
  return (static_cast<double>(sum_chain(width)) / 2 + 6) * kUnit;
}

}  // namespace

std::int64_t sum_chain(std::int64_t width) {
  return std::min<std::int64_t>(width, kNormBlock / 4) + 16;
}

double spacing(DType dtype, double v) {
  const FloatTraits traits = float_traits(dtype);
  return std::max(std::exp2(std::floor(std::log2(std::abs(v)))) * traits.eps, traits.tiny);
}

bool may_flip(DType dtype, double v, double error) {
  return round_to(dtype, v - error) != round_to(dtype, v + error);
}

double overflowed(DType dtype, double v) {
  const double stored = round_to(dtype, v);
  return std::isinf(stored) ? stored : v;
}

double weight_offset_of(const Args& args) {
  const double offset = args.scalars[kWeightOffset].f;
  const auto f32 = static_cast<float>(offset);
  return std::isinf(f32) || f32 == 0 ? f32 : offset;
}

void reference_row(const RowSpec& spec, const double* h, double* value, double* magnitude) {
  double sum = 0;
  for (std::int64_t c = 0; c < spec.width; ++c) sum += h[c] * h[c];
  const double scale = 1 / std::sqrt(sum / static_cast<double>(spec.width) + spec.eps);
  const double error = relative_error(spec.width);
  for (std::int64_t c = 0; c < spec.width; ++c) {
    const double weight = load_element(*spec.weight, c * spec.weight->strides[0]);
    const double factor = weight + spec.weight_offset;
    const double factor_size = std::abs(weight) + std::abs(spec.weight_offset);
    double normed = h[c] * scale;
    double size = std::abs(normed);
    if (spec.cast_before_weight && spec.dtype != DType::kF32) {
      // One step of the dtype, where the kernel's value may lie on the other side of a tie.
      const double off = size * error + 0x1p-149;
      if (may_flip(spec.dtype, normed, off)) size += spacing(spec.dtype, normed) / error;
      normed = round_to(spec.dtype, normed);
    }
    // 0 · ∞ is no number, and f32 decides what is 0.
    if (std::isinf(factor)) normed = round_to(DType::kF32, normed);
    value[c] = overflowed(spec.dtype, normed * factor);
    // Below 2^-126 f32 roundings are absolute.
    magnitude[c] = (size + 0x1p-126) * factor_size;
  }
}

Bound row_bound(DType dtype, std::int64_t width) {
  const FloatTraits traits = float_traits(dtype);
  const bool narrow =
      dtype != DType::kF32;  // the store of an f32 is the last product's own rounding
  Bound bound;
  bound.magnitude = relative_error(width) * (1 + traits.eps);
  bound.value = narrow ? traits.eps / 2 : 0;
  bound.absolute = traits.tiny / 2 + 0x1p-149;
  return bound;
}

}  // namespace dlblas::norm
