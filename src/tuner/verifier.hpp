// Judges results against the oracle's values of the chosen rows, computed once for all candidates
// of a problem. In: inputs as they were before a call, results. Out: a Verdict. Flow: tune >
// measure > [verify].  Read next: tuner/verify.hpp (on the host), tuner/cuda_verifier.hpp.
#pragma once

#include <memory>

#include "tuner/memory.hpp"
#include "tuner/verify.hpp"

namespace dlblas {

class Verifier {
 public:
  virtual ~Verifier() = default;
  /// Judges the chosen rows of results and written inputs, as `after` has them.
  virtual Verdict compare(const Args& after) = 0;
  /// Judges every row; `before` has the inputs as they were before the call.
  virtual Verdict compare_whole(const Args& before, const Args& after) = 0;
  /// Rows, ascending, in which two results differ by more than two correct ones may: by twice the
  /// bound at a column's largest magnitude in the chosen rows. Every element is compared; where
  /// other rows have larger magnitudes, correct results may be among them.
  virtual std::vector<std::int64_t> disputed(const Args& one, const Args& other) = 0;
  /// Those of the elements (row-major indices into judged tensor j, ascending) that the oracle
  /// defines: others need not be written. If they are in many rows, only some rows are evaluated.
  virtual std::vector<std::int64_t> defined(const Args& before, int j,
                                            const std::vector<std::int64_t>& elements) = 0;
  /// Milliseconds that the oracle took per row.
  virtual double row_ms() const = 0;
  /// False if a chosen row's value is NaN, or is out of the range of the result's type in `args`,
  /// or nearly: implementations may then overflow earlier. Infinities may be intended, as those of
  /// masks are.
  virtual bool fits(const Args& args) const = 0;
};

/// As many of the rows as an oracle of `row_ms` per row computes in some milliseconds, at least 8:
/// the first, the last, and others between.
std::vector<std::int64_t> some_of(const std::vector<std::int64_t>& rows, double row_ms);
/// The rows, of this width, that contain these elements.
std::vector<std::int64_t> rows_with(const std::vector<std::int64_t>& elements, std::int64_t width);
/// The elements in `rows` whose magnitude, in [rows, width], does not mark them as undefined.
std::vector<std::int64_t> defined_of(const std::vector<std::int64_t>& elements,
                                     const std::vector<std::int64_t>& rows, std::int64_t width,
                                     const double* magnitudes);

/// False if one of `count` values is NaN, or is finite but beyond half of what the type holds.
bool all_fit(const double* values, const double* magnitudes, std::size_t count, DType dtype);
/// For each column, the largest finite magnitude in [rows, width]; −1 where none is defined.
std::vector<double> largest_of(const double* magnitudes, std::size_t rows, std::int64_t width);
/// Indices of the bytes that are not 0.
std::vector<std::int64_t> set_in(const std::vector<std::uint8_t>& flags);

/// The reference on the host, threaded by the context.
class HostVerifier final : public Verifier {
 public:
  HostVerifier(const Operator& op, const Problem& problem, const Args& args,
               std::vector<std::int64_t> rows, const Context& context, std::int64_t (*clock)());
  Verdict compare(const Args& after) override { return oracle_->compare(after); }
  Verdict compare_whole(const Args& before, const Args& after) override {
    return verify(op_, problem_, before, after, {}, context_);
  }
  std::vector<std::int64_t> disputed(const Args& one, const Args& other) override;
  std::vector<std::int64_t> defined(const Args& before, int j,
                                    const std::vector<std::int64_t>& elements) override;
  double row_ms() const override { return row_ms_; }
  bool fits(const Args& args) const override;

 private:
  const Operator& op_;
  const Problem problem_;
  const Context context_;
  std::unique_ptr<HostCopy> before_;  // for the operator's judge; null: it has none
  std::unique_ptr<Oracle> oracle_;
  double row_ms_ = 0;
};

/// The same for tensors in other memory, which it fetches: for operators with a judge of their own,
/// which reads them on the host.
class FetchingVerifier final : public Verifier {
 public:
  FetchingVerifier(const Operator& op, const Problem& problem, const Args& args,
                   std::vector<std::int64_t> rows, const Context& context, std::int64_t (*clock)(),
                   Memory& memory)
      : memory_(memory),
        host_(op, problem, HostCopy(args, memory).args(), std::move(rows), context, clock) {}
  Verdict compare(const Args& after) override {
    return host_.compare(HostCopy(after, memory_).args());
  }
  Verdict compare_whole(const Args& before, const Args& after) override {
    return host_.compare_whole(HostCopy(before, memory_).args(), HostCopy(after, memory_).args());
  }
  std::vector<std::int64_t> disputed(const Args& one, const Args& other) override {
    return host_.disputed(HostCopy(one, memory_).args(), HostCopy(other, memory_).args());
  }
  std::vector<std::int64_t> defined(const Args& before, int j,
                                    const std::vector<std::int64_t>& elements) override {
    return host_.defined(HostCopy(before, memory_).args(), j, elements);
  }
  double row_ms() const override { return host_.row_ms(); }
  bool fits(const Args& args) const override { return host_.fits(args); }

 private:
  Memory& memory_;
  HostVerifier host_;
};

}  // namespace dlblas
