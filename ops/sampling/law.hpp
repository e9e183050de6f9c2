// The exact distribution of one row, for reference and judge: probabilities in f64, and the sets of
// elements that a correct implementation may keep. A set is named by its least value. There are
// several where, within rounding error, the mass above a value is top_p of all, or a probability is
// min_p of the largest.
// Errors of a mass relative to the largest, in units u = 2^-24: (x − max) · (1 / T) · log2(e) has
// an error of 5 of (x − max) / T, 2^ adds 4 more; and half of 2^-40, the unit of masses. Read next:
// sampling.hpp, registry/operator.hpp (Judgement).
#pragma once

#include <vector>

#include "ops/sampling/sampling.hpp"

namespace dlblas::sampling {

class Law {
 public:
  Law(const SamplingOp& op, const Args& args, std::int64_t row);

  bool bad() const { return bad_; }
  bool greedy() const { return greedy_; }
  std::int64_t width() const { return static_cast<std::int64_t>(x.size()); }
  /// The least value that is kept, and all values that may be it, from the largest down.
  double nominal() const { return nominal_; }
  const std::vector<double>& possible() const { return possible_; }
  /// Mass and error of the elements no less than `least`.
  double mass(double least) const;
  double error(double least) const;
  std::int64_t first_largest() const;
  /// The column that u in [0, 1) selects.
  std::int64_t pick(double least, double u) const;
  /// True if u may select this column; never one without mass.
  bool may_pick(double least, double u, std::int64_t column) const;

  std::vector<double> x, p, errors;  // p: of the largest

 private:
  void find_thresholds();
  RowRule rule_;
  bool bad_ = false, greedy_ = false;
  double max_ = 0, nominal_ = 0;
  std::vector<double> possible_;
};

}  // namespace dlblas::sampling
