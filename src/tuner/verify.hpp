// Whether a result is right: the oracle's rows, the error each element is allowed, the verdict.
// In: arguments with the inputs as they were before the call, results to judge. Out: Verdict.
// One run of the reference serves every candidate of a Problem: references cost seconds, comparing
// costs milliseconds. Flow: the tuner's check; dlblas_verify.  Read next: tuner/measure.hpp.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "registry/registry.hpp"

namespace dlblas {

/// Meaning of the fields as in dlblas_verdict.
struct Verdict {
  double worst = 0;
  double relative = 0;
  std::int64_t wrong = 0;
  std::int64_t checked = 0;
  std::int64_t first_wrong = -1;  // -1: none, or a judge does not know which
  int result = 0;                 // index into Schema::judged
  bool mistrusted = false;
  /// At least one result can tell right from wrong: its elements are not all the same, not mostly
  /// NaN, not only zeros.
  bool telling = false;
};

/// The totals of comparing a result, or a part of it. `seen`: its elements, undefined ones too;
/// `zeros`: those that 0 would pass for; `nans` and `infinite`: those whose reference is NaN or
/// infinite.
struct Tally {
  double worst = 0, distance = 0, norm = 0;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  std::int64_t wrong = 0, checked = 0, seen = 0, zeros = 0, first_wrong = -1;
  std::int64_t nans = 0, infinite = 0;
  bool is_telling() const;
  /// Adds what it says about `result` (an index into Schema::judged) to the verdict.
  void finish(Verdict& verdict, int result) const;
};

/// "result y", "the written input state": what a verdict is about, for people.
std::string judged_name(const Schema& schema, int judged);
/// "the first at 7 of result y"; "some of result y" where a judge does not know which.
std::string first_place(const Schema& schema, const Verdict& verdict);

/// A result, or a written input, as rows: the last dimension, and the flattened leading ones.
std::int64_t row_width(const TensorView& t);
std::int64_t row_count(const TensorView& t);
/// Rows of everything that is judged, flattened: the largest count.
std::int64_t count_rows(const Args& args);

/// Every row while the oracle needs less than 2^30 multiply-adds for all of them and the results
/// have at most `max_elements`; else 64 seeded rows, the first, the last, and the edges of tiles of
/// 8 … 512 rows (each ± 1). A result with fewer rows adds as many seeded rows of its own, and its
/// last. Ascending. For an operator with a judge: every row while its results have at most 2^26
/// elements, since two correct implementations may differ in all of them.
std::vector<std::int64_t> choose_rows(const Operator& op, const Problem& problem, const Args& args,
                                      std::uint64_t seed, std::int64_t max_elements);

/// The reference values of the chosen rows, kept to compare any number of results with.
class Oracle {
 public:
  /// Runs the reference over `rows`, threaded. `args` has the inputs as they were before the call,
  /// and shapes for the results; if the operator has a judge, that reads them again later. With a
  /// judge and a reference that computes all rows at once, all rows are used, whatever `rows` says.
  Oracle(const Operator& op, const Problem& problem, const Args& args,
         std::vector<std::int64_t> rows, const Context& context);
  /// Compares results and written inputs, as `after` has them, with the references.
  Verdict compare(const Args& after) const;
  /// Adds what the operator's judge says of these rows to a Finding for each of Schema::judged.
  void judge(const Args& after, Finding* found) const;
  const std::vector<std::int64_t>& rows() const { return rows_; }
  /// Values of judged tensor j: [rows, width]; null where it is absent.
  const double* values(int j) const { return values_[j].get(); }
  const double* magnitudes(int j) const { return magnitudes_[j].get(); }

 private:
  /// Points `out` to the reference's values of rows_[begin …].
  void places(const Args& args, std::int64_t begin, OracleOut* out) const;
  void check_findings(const Args& after, std::int64_t num_rows, const Finding* found) const;

  const Operator* op_;
  Problem problem_;
  Args before_;
  Context context_;
  std::vector<std::int64_t> rows_;
  std::unique_ptr<double[]> values_[kMaxJudged], magnitudes_[kMaxJudged];
};

/// Compares `after`'s results and written inputs with the oracle on `before`'s inputs, in bounded
/// memory unless a judge needs all rows at once; no rows: every row.
Verdict verify(const Operator& op, const Problem& problem, const Args& before, const Args& after,
               const std::vector<std::int64_t>& rows, const Context& context);
inline Verdict verify(const Operator& op, const Problem& problem, const Args& args,
                      const std::vector<std::int64_t>& rows, const Context& context) {
  return verify(op, problem, args, args, rows, context);
}

}  // namespace dlblas
