// What an oracle collects for a result that is folded over rows: a column's sum, and an upper bound
// of a kernel's error. Read next: device/oracle/sum_error.hpp, docs/row_programs.md.
#pragma once

#include "device/oracle/sum_error.hpp"
#include "device/row/call.hpp"

namespace dlblas::kernels {

/// Over rows: one chain on a CPU; on a GPU one, and at most 32 threads' sums.
using FoldWalk = ChainWalk<1, kMaxFoldedRows>;

/// A column's terms over all rows, each with its largest error, which is six standard deviations or
/// more: it consists of roundings, whose standard deviation is 0.42 of their maximum. If rows
/// differ, so do their errors, which add up as the root of their sum of squares. If rows are alike,
/// their errors have one sign: the sum of `alike`, which is as large, but signed. The error of the
/// summation itself is independent of these: again the root of squares.
class FoldedColumn {
 public:
  void add(double term, double off, double alike) {
    terms_.add(term);
    off_ += off, squares_ += off * off, alike_ += alike;
  }
  double sum() const { return terms_.sum(); }
  /// −1: f32 cannot hold the sum.
  double magnitude() const {
    if (terms_.overflows()) return -1;
    const double errors = std::min(off_, std::max(std::sqrt(squares_), std::abs(alike_)));
    const double least = 0x1p-126;  // below, roundings of f32 are absolute
    return std::hypot(errors, terms_.roundings()) + least;
  }

 private:
  FoldWalk terms_;
  double off_ = 0, squares_ = 0, alike_ = 0;
};

}  // namespace dlblas::kernels
