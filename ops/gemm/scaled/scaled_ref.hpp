// The oracle of the scaled products: an element's value in f64, and how far a kernel may be from
// it. One text, which g++ compiles for the reference and NVRTC for the device oracle; these differ
// in where codes and scales come from.
//
//   out = Σ_g f_g · S_g + bias,   S_g = Σ a·b over group g of K,   f_g = a_scale · b_scale in f32
//
// i8: S_g is exact in every kernel (i32 sums, or f32 sums of at most 128 terms); the roundings of
// f_g · S_g and of the sums of groups remain.
// e4m3: Hopper's tensor core aligns the products of an instruction (32 of K) and its accumulator to
// the largest of them and truncates what is more than 13 bits below it; kernels take the sum out
// every 128 of K. The unit u is 2^-13 of the largest product or partial sum of 128, doubled because
// the hardware is undocumented. A truncation loses half a unit on average, always towards zero,
// which adds up where products have one sign. Its deviation from that mean, 0.29 units root mean
// square, is a random walk: 2·√n is at least six standard deviations. The deviation of a group's
// mean from half a unit is a random walk as well.
// Read next: scaled_ref.cpp, scaled_oracle.cuh, device/oracle/sum_error.hpp.
#pragma once

#include "device/oracle/sum_error.hpp"
#include "device/oracle/value.hpp"

namespace dlblas::gemm::scaled {

/// Terms of K that a kernel may add up in a tensor core; the groups of block scales.
inline constexpr int kOracleGroup = 128;

class ScaledWalk {
 public:
  /// `exact`: whether the sum of a group is exact.
  DLBLAS_ORACLE explicit ScaledWalk(bool exact) : exact_(exact) {}
  DLBLAS_ORACLE void add(double product) {
    sum_ += product;
    above_ += product > 0 ? 1 : 0;
    below_ += product < 0 ? 1 : 0;
    peak_ = std::max(peak_, std::max(std::abs(product), std::abs(sum_)));
  }
  /// After kOracleGroup terms, and after the last ones.
  DLBLAS_ORACLE void end_group(double factor) {
    constexpr double kUnit = 0x1p-12;
    const double unit = exact_ ? 0 : kUnit * peak_ * std::abs(factor);
    total_ += factor * sum_;
    size_ += std::abs(factor * sum_);
    const double one_sided = (factor < 0 ? -unit : unit) / 2 * (above_ - below_);
    one_sided_ += one_sided;
    squares_ += 4 * unit * unit * (above_ + below_) + one_sided * one_sided;
    sum_ = peak_ = above_ = below_ = 0;
    ++groups_;
  }
  DLBLAS_ORACLE double total() const { return total_; }
  /// Allowed error of a kernel's total, including its product with one more factor.
  DLBLAS_ORACLE double magnitude() const {
    const double steps = 6 + 2 * std::sqrt(groups_);
    return kRounding * steps * size_ + std::abs(one_sided_) + std::sqrt(squares_);
  }

 private:
  bool exact_;
  double sum_ = 0, peak_ = 0, above_ = 0, below_ = 0;
  double total_ = 0, size_ = 0, one_sided_ = 0, squares_ = 0, groups_ = 0;
};

/// What all elements of a call share.
struct ScaledRule {
  std::int64_t depth;  // K
  bool exact;          // the sum of a group is exact
  bool blocks;         // a factor per group, and per kOracleGroup columns; else one for all of K
};
DLBLAS_ORACLE ScaledRule scaled_rule(DType codes, std::int64_t depth, bool blocks) {
  return {depth, codes == DType::kI8, blocks};
}

/// f_g, in f32 as in kernels.
DLBLAS_ORACLE double scaled_factor(double a_scale, double b_scale) {
  return static_cast<double>(static_cast<float>(a_scale) * static_cast<float>(b_scale));
}

/// An element: terms(walk, begin, end) adds the products of [begin, end) of K; factor(group) is
/// f_g, that of group 0 where there is one for all.
template <typename Terms, typename Factor>
DLBLAS_ORACLE OracleValue scaled_element(const ScaledRule& rule, const Terms& terms,
                                         const Factor& factor, double bias) {
  ScaledWalk walk(rule.exact);
  for (std::int64_t begin = 0; begin < rule.depth; begin += kOracleGroup) {
    terms(walk, begin, std::min<std::int64_t>(rule.depth, begin + kOracleGroup));
    walk.end_group(rule.blocks ? factor(begin / kOracleGroup) : 1);
  }
  const double whole = rule.blocks ? 1 : factor(0);
  return {whole * walk.total() + bias,
          std::abs(whole) * walk.magnitude() + 4 * kRounding * std::abs(bias)};
}

}  // namespace dlblas::gemm::scaled
