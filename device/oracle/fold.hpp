// What an oracle collects of a result that is folded over rows: a column's sum, and how far kernels
// may be off. Read next: device/oracle/sum_error.hpp, docs/row_programs.md.
#pragma once

#include "device/oracle/sum_error.hpp"
#include "device/row/call.hpp"

namespace dlblas::kernels {

/// Over rows: one chain on a CPU; on a GPU one, and 32 threads' sums at most.
using FoldWalk = ChainWalk<1, kMaxFoldedRows>;

/// A column's terms over all rows, each with what it may be off by at most, which is six deviations
/// or more: the parts of it are roundings, which deviate by 0.42 of their most. Rows differ, and so
/// do their errors: the root of their sum of squares. Or rows are alike, and their errors have one
/// sign: the sum of `alike`, which is as large, but signed. What the sum itself brings is
/// independent of these: again the root of squares.
class FoldedColumn {
 public:
  void add(double term, double off, double alike) {
    terms_.add(term);
    off_ += off, squares_ += off * off, alike_ += alike;
  }
  double sum() const { return terms_.sum(); }
  /// −1: f32 cannot hold it.
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
