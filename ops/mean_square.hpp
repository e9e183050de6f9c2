// How far the root of a row's mean square may be off: what the oracles of norms share, in any
// family.
//
// u = 2^-24 is the rounding of f32. A kernel may sum squares in f32 chains of at most sum_chain(C)
// terms, kChainColumns / 8 (8 sums side by side are the fewest), and adds what blocks give in f64.
// Along a chain of n squares roundings walk at random (device/oracle/sum_error.hpp): 2.5·u·√n·R at
// six deviations, R = S/√3; of 8 chains the errors differ, so it is 1.44·u·√(n/8) of their sum,
// and half of that in its root: 5.8 roundings for the longest chains, 3 measured.
//   alike: squares that are equal round alike, in every chain: u·n/4 of the root at most, n/8 in
// the CPU's worst (full(0.1), a row of 4096 by cpu_baseline: 64). The share of alike squares is
// q = (Σh²)² / (nonzero·Σh⁴): 1 where all are equal, 0.74 where 0.1 and 0.2 alternate (23
// measured), 0.56 for uniform, 0.33 for normal values (nothing measured beyond the walk). Allowed
// n/4·q⁶. Read next: ops/norm/norm_ref.hpp (the rest of a norm's bound).
#pragma once

#include "device/row/call.hpp"
#include "ops/oracle_text.hpp"

namespace dlblas::norm {

/// Columns that CPU kernels sum in f32 before they add in f64: kRowBlock (cpu/row/columns.hpp).
inline constexpr std::int64_t kChainColumns = 4096;
/// The longest f32 chain in a sum over `width` elements.
inline double sum_chain(std::int64_t width) {
  return static_cast<double>(std::min<std::int64_t>(width, kChainColumns)) / 8;
}

/// Σh² of a row, and how alike the squares are.
struct RowSquares {
  double sum = 0, fourth = 0, nonzero = 0;
  void add(double h) {
    const double square = h * h;
    sum += square;
    fourth += square * square;
    nonzero += h != 0;
  }
  /// Roundings, as a factor of kRounding, of the root that come from the sum.
  double root_error(std::int64_t width) const {
    const double chain = sum_chain(width);
    const double q = fourth > 0 ? sum / fourth * (sum / nonzero) : 0;
    const double q3 = q * q * q;
    return 0.72 * std::sqrt(chain / 8) + (std::isfinite(q) ? chain / 4 * q3 * q3 : 0);
  }
};

/// Roundings between the sum and y.
inline constexpr double kNormRoundings = 6;

/// The power of 2 by which kernels scale differences: as small as leaves eps above 2^-100, so that
/// what matters beside eps stays above f32's smallest.
inline double layer_norm_scale(double eps) {
  if (!(eps > 0x1p-100)) return 1;
  return std::exp2(std::max(-62.0, std::ceil((-100 - std::log2(eps)) / 2)));
}

/// The scalars of a kernel that scales so: eps scaled, 1 / width, the scale.
inline void fill_mean_square(double eps, std::int64_t width, RowCall& call) {
  const double scale = layer_norm_scale(eps);
  call.f[0] = static_cast<float>(eps * scale * scale);
  call.f[1] = static_cast<float>(1 / static_cast<double>(width));
  call.f[2] = static_cast<float>(scale);
}

/// 1/√(mean x² + eps) of a row's elements x(column), the roundings of a norm by it, and whether f32
/// cannot hold its sum, as kernels scale it.
struct RootMeanSquare {
  double factor, roundings;
  bool lost;
};
template <typename Row, typename X>
RootMeanSquare root_mean_square(const Row& row, std::int64_t width, double eps, const X& x) {
  const auto sums = row.template sums<3>(width, [&](auto c, double* terms) {
    const double square = x(c) * x(c);
    terms[0] = square, terms[1] = square * square, terms[2] = square != 0;
  });
  const RowSquares squares = {sums.of[0], sums.of[1], sums.of[2]};
  const double mean = squares.sum / static_cast<double>(width) + eps;
  const double scale = layer_norm_scale(eps), scaled = mean * scale * scale;
  const double most = std::max(squares.sum * scale * scale, scaled);
  return {1 / std::sqrt(mean), kNormRoundings + squares.root_error(width),
          (std::isfinite(most) && most >= 0x1p126) || scaled < 0x1p-101};
}

/// The error allowed for y of `dtype`, relative to magnitudes in roundings of f32.
inline Bound row_bound(DType dtype) {
  const FloatTraits traits = float_traits(dtype);
  const bool narrow = dtype != DType::kF32;  // an f32's store is the last product's own rounding
  return {.magnitude = kRounding * (1 + traits.eps),
          .value = narrow ? traits.eps / 2 : 0,
          .absolute = traits.tiny / 2 + 0x1p-149};
}

}  // namespace dlblas::norm
