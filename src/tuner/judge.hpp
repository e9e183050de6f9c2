// Who says whether results are right: the oracle's values of the chosen rows, computed once for all
// candidates of a problem. In: inputs as they were before a call, results. Out: a Verdict.
// Flow: tune > measure > [judge].  Read next: tuner/verify.hpp (on the host), tuner/cuda_judge.hpp.
#pragma once

#include <memory>

#include "tuner/verify.hpp"

namespace dlblas {

class Judge {
 public:
  virtual ~Judge() = default;
  /// The chosen rows of results and written inputs, as `after` has them.
  virtual Verdict compare(const Args& after) = 0;
  /// Every row; `before` has the inputs as they were before the call.
  virtual Verdict compare_whole(const Args& before, const Args& after) = 0;
  /// Milliseconds that the oracle took for a row.
  virtual double row_ms() const = 0;
};

/// The reference on the host, threaded by the context.
class HostJudge final : public Judge {
 public:
  HostJudge(const Operator& op, const Problem& problem, const Args& args,
            std::vector<std::int64_t> rows, const Context& context, std::int64_t (*clock)());
  Verdict compare(const Args& after) override { return oracle_->compare(after); }
  Verdict compare_whole(const Args& before, const Args& after) override {
    return verify(op_, problem_, before, after, {}, context_);
  }
  double row_ms() const override { return row_ms_; }

 private:
  const Operator& op_;
  const Problem problem_;
  const Context context_;
  std::unique_ptr<Oracle> oracle_;
  double row_ms_ = 0;
};

}  // namespace dlblas
