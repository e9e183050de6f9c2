// How far a sum of products of f8 may be from the exact one where Hopper's tensor core adds them
// up: it aligns the products of an instruction (32 of K) and its accumulator to the largest of them
// and cuts what is below 13 bits under it. In units u = 2^-13 of the largest of products and
// partial sums of a group, doubled, since the hardware is documented nowhere, a cut takes half a
// unit in the mean, always towards zero, which adds up where products have one sign, and differs
// from that by 0.29 units in the root mean square, which walks: 2·√n is six deviations and more.
// What the mean of a group may differ from half a unit walks as well. Read next: sum_error.hpp,
// ops/gemm/scaled/scaled_ref.hpp.
#pragma once

#include "device/oracle/sum_error.hpp"

namespace dlblas {

/// A sum of groups that are added up in f32, times a factor each.
class CutWalk {
 public:
  /// `exact`: sums of a group are.
  DLBLAS_ORACLE explicit CutWalk(bool exact) : exact_(exact) {}
  DLBLAS_ORACLE void add(double product) {
    sum_ += product;
    above_ += product > 0 ? 1 : 0;
    below_ += product < 0 ? 1 : 0;
    peak_ = std::max(peak_, std::max(std::abs(product), std::abs(sum_)));
  }
  /// After the terms that a kernel may add up in a tensor core, and behind the last ones.
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
  /// How far a kernel's total may be off by what is cut: in the mean, and by how it walks.
  DLBLAS_ORACLE double one_sided() const { return std::abs(one_sided_); }
  DLBLAS_ORACLE double walked() const { return std::sqrt(squares_); }
  /// Both and the groups' roundings of f32, and its product with one factor more.
  DLBLAS_ORACLE double magnitude() const {
    const double steps = 6 + 2 * std::sqrt(groups_);
    return kRounding * steps * size_ + one_sided() + walked();
  }

 private:
  bool exact_;
  double sum_ = 0, peak_ = 0, above_ = 0, below_ = 0;
  double total_ = 0, size_ = 0, one_sided_ = 0, squares_ = 0, groups_ = 0;
};

}  // namespace dlblas
