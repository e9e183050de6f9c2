// The error that the root of a row's mean square may have. Shared by the oracles of norms in every
// family.
//
// u = 2^-24 is the rounding of f32. A kernel may sum squares in f32 chains of at most sum_chain(C)
// terms, kChainColumns / 8 (8 parallel sums are the fewest), and adds the sums of blocks in f64.
// Along a chain of n squares the roundings are a random walk (device/oracle/sum_error.hpp):
// 2.5·u·√n·R at six standard deviations, R = S/√3. The errors of 8 chains are independent, so their
// sum has a relative error of 1.44·u·√(n/8), and its root half of that: 5.8 roundings for the
// longest chains, 3 measured.
//   alike: equal squares round alike, in every chain: at most u·n/4 of the root, n/8 in the CPU's
// worst case (full(0.1), a row of 4096 by cpu_baseline: 64). The share of equal squares is q =
// (Σh²)² / (nonzero·Σh⁴): 1 if all are equal, 0.74 if 0.1 and 0.2 alternate (23 measured), 0.56 for
// uniform and 0.33 for normal values (nothing measured beyond the walk). Allowed: n/4·q⁶.
// Read next: ops/norm/norm_ref.hpp (the rest of a norm's bound).
#pragma once

#include "device/row/call.hpp"
#include "ops/common/oracle_text.hpp"

namespace dlblas::norm {

/// Columns that CPU kernels sum in f32 before they switch to f64: kRowBlock (cpu/row/columns.hpp).
inline constexpr std::int64_t kChainColumns = 4096;
/// The longest f32 chain in a sum over `width` elements.
inline double sum_chain(std::int64_t width) {
  return static_cast<double>(std::min<std::int64_t>(width, kChainColumns)) / 8;
}

/// Σh² of a row, and the sums that measure how many squares are equal.
struct RowSquares {
  double sum = 0, fourth = 0, nonzero = 0;
  void add(double h) {
    const double square = h * h;
    sum += square;
    fourth += square * square;
    nonzero += h != 0;
  }
  /// Error of the root that comes from the sum, in units of kRounding.
  double root_error(std::int64_t width) const {
    const double chain = sum_chain(width);
    const double q = fourth > 0 ? sum / fourth * (sum / nonzero) : 0;
    const double q3 = q * q * q;
    return 0.72 * std::sqrt(chain / 8) + (std::isfinite(q) ? chain / 4 * q3 * q3 : 0);
  }
};

/// Roundings between the sum and y.
inline constexpr double kNormRoundings = 6;

/// The power of 2 by which kernels scale differences: the smallest that keeps eps above 2^-100, so
/// that whatever matters beside eps stays above f32's smallest number.
inline double layer_norm_scale(double eps) {
  if (!(eps > 0x1p-100)) return 1;
  return std::exp2(std::max(-62.0, std::ceil((-100 - std::log2(eps)) / 2)));
}

/// The scalars of a kernel that scales this way: the scaled eps, 1 / width, the scale.
inline void fill_mean_square(double eps, std::int64_t width, RowCall& call) {
  const double scale = layer_norm_scale(eps);
  call.f[0] = static_cast<float>(eps * scale * scale);
  call.f[1] = static_cast<float>(1 / static_cast<double>(width));
  call.f[2] = static_cast<float>(scale);
}

/// 1/√(mean x² + eps) of a row's elements x(column), the error in roundings of a norm that uses it,
/// and whether its sum, as kernels scale it, leaves f32's range.
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

/// The allowed error of y of `dtype`, relative to magnitudes in roundings of f32.
inline Bound row_bound(DType dtype) {
  const FloatTraits traits = float_traits(dtype);
  const bool narrow = dtype != DType::kF32;  // an f32's store is the last product's own rounding
  return {.magnitude = kRounding * (1 + traits.eps),
          .value = narrow ? traits.eps / 2 : 0,
          .absolute = traits.tiny / 2 + 0x1p-149};
}

}  // namespace dlblas::norm
