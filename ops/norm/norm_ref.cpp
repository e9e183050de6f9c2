// The oracle of the norm family. Plain f64 loops; the bound is derived below, not fitted.
//
// u = 2^-24 is the rounding of f32. A kernel may sum squares in f32 chains of at most sum_chain(C)
// terms, kNormBlock / 8 (8 sums side by side are the fewest), and adds what blocks give in f64.
// Along a chain of n squares roundings walk at random (registry/sum_error.hpp): 2.5·u·√n·R at six
// deviations, R = S/√3; of 8 chains the errors differ, so it is 1.44·u·√(n/8) of their sum, and
// half of that in its root: 5.8 roundings for the longest chains, 3 measured.
//   alike: squares that are equal round alike, in every chain: u·n/4 of the root at most, n/8 in
// the CPU's worst (full(0.1), a row of 4096 by cpu_baseline: 64). The share of alike squares is
// q = (Σh²)² / (nonzero·Σh⁴): 1 where all are equal, 0.74 where 0.1 and 0.2 alternate (23
// measured), 0.56 for uniform, 0.33 for normal values (nothing measured beyond the walk). Allowed
// n/4·q⁶. Six more roundings follow in f32: the scale, 2 units from where a root is approximated,
// its product with h, weight + offset, the last product, and one for second-order terms. Hence
//   |y − ref| ≤ (6 + 0.72·√(n/8) + n/4·q⁶)·u · |h·scale|·(|weight| + |offset|)
//               +  rounding to y's dtype:
// 12 roundings of f32 for a wide row of normal values.
// Read next: ops/norm/cpu/norm_simd.hpp.
#include "ops/norm/norm_ref.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/element.hpp"
#include "ops/norm/cpu/norm_config.hpp"
#include "ops/norm/norm_ops.hpp"

namespace dlblas::norm {

double sum_chain(std::int64_t width) {
  return static_cast<double>(std::min<std::int64_t>(width, kNormBlock)) / 8;
}

void RowSquares::add(double h) {
  const double square = h * h;
  sum += square;
  fourth += square * square;
  nonzero += h != 0;
}

double RowSquares::root_error(std::int64_t width) const {
  const double chain = sum_chain(width);
  const double q = fourth > 0 ? sum / fourth * (sum / nonzero) : 0;
  const double q3 = q * q * q;
  return 0.72 * std::sqrt(chain / 8) + (std::isfinite(q) ? chain / 4 * q3 * q3 : 0);
}

double spacing(DType dtype, double v) {
  const FloatTraits traits = float_traits(dtype);
  return std::max(std::exp2(std::floor(std::log2(std::abs(v)))) * traits.eps, traits.tiny);
}

bool may_flip(DType dtype, double v, double error) {
  return round_to(dtype, v - error) != round_to(dtype, v + error);
}

double overflowed(DType dtype, double v, double magnitude) {
  const double least = std::abs(v) - 2 * kRounding * magnitude;
  const bool sure = least > 0 && std::isinf(round_to(dtype, least));
  return sure ? std::copysign(std::numeric_limits<double>::infinity(), v) : v;
}

double weight_offset_of(const Args& args) {
  const double offset = args.scalars[kWeightOffset].f;
  const auto f32 = static_cast<float>(offset);
  return std::isinf(f32) || f32 == 0 ? f32 : offset;
}

void reference_row(const RowSpec& spec, const double* h, double* value, double* magnitude) {
  RowSquares squares;
  for (std::int64_t c = 0; c < spec.width; ++c) squares.add(h[c]);
  const double scale = 1 / std::sqrt(squares.sum / static_cast<double>(spec.width) + spec.eps);
  const double roundings = kNormRoundings + squares.root_error(spec.width);
  const double error = roundings * kRounding;
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
    // Below 2^-126 f32 roundings are absolute.
    magnitude[c] = roundings * (size + 0x1p-126) * factor_size;
    value[c] = overflowed(spec.dtype, normed * factor, magnitude[c]);
  }
}

Bound row_bound(DType dtype) {
  const FloatTraits traits = float_traits(dtype);
  const bool narrow =
      dtype != DType::kF32;  // the store of an f32 is the last product's own rounding
  Bound bound;
  bound.magnitude = kRounding * (1 + traits.eps);
  bound.value = narrow ? traits.eps / 2 : 0;
  bound.absolute = traits.tiny / 2 + 0x1p-149;
  return bound;
}

}  // namespace dlblas::norm
