// Runs candidates on inputs of our own: is the result right, and how long does it take?
// In: (Problem, Plans, seed, copies of index arguments), nothing else of the caller's, so that a
// worker process can do it as well. Out: a kind of failure, or milliseconds.
// The only clock of the library is here; tests bring their own.
// Flow: tune > inputs > [measure].  Read next: tuner/race.hpp, which decides what is measured.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/dispatch.hpp"
#include "tuner/inputs.hpp"
#include "tuner/verify.hpp"

namespace dlblas {

/// Nanoseconds of a clock that never goes back.
using ClockFn = std::int64_t (*)();
std::int64_t steady_nanoseconds();

enum class Failure : std::uint8_t {
  kNone,
  kCompileError,  // preparing threw
  kLaunchError,   // a step returned a code, or threw
  kOutOfBounds,   // a byte outside the results (or the workspace) changed
  kUnwritten,     // an element kept both poison patterns
  kWrongResult,   // an element is further from the oracle than its bound
};
/// The word in records and reports: "wrong_result", …; "" for kNone.
std::string_view name_of(Failure failure);

struct Check {
  Failure failure = Failure::kNone;
  std::string note;  // what exactly, for people
  double error = 0;  // worst |out − ref| over its bound
  double ms = 0;     // of one run, the second
};

class Measurer {
 public:
  Measurer(const Operator& op, const Problem& problem, std::uint64_t seed, const Args* caller,
           const Context& context, ClockFn clock);

  /// Two runs on results poisoned with two byte patterns in turn, both compared with the oracle.
  Check check(const Plan& plan);
  /// Every element of the results against the oracle: what the winner must pass.
  Verdict check_whole(const Plan& plan);
  /// What check_whole takes, from how long the oracle took for the rows it did; milliseconds.
  double whole_cost_ms() const;
  /// True when `check` compares every element already.
  bool checks_whole() const { return checks_whole_; }

  /// Runs that a sample of a kernel of `ms` needs: at least 20 µs, a few hundred times the clock's
  /// resolution.
  int batch_for(double ms) const;
  /// Milliseconds of one run, the mean over a batch.
  double sample(const Plan& plan, int batch);

  /// No run finds its tensors in a cache: several sets in turn, or one that is larger than any.
  bool rotates() const { return rotates_; }
  bool mistrusted() const { return mistrusted_; }

 private:
  int run(const Kernel& kernel, const CallData& data);
  void* workspace_for(const Kernel& kernel);
  bool workspace_intact() const;
  void make_sets();

  const Operator& op_;
  const Problem problem_;
  Context context_;
  const ClockFn clock_;
  std::deque<CallData> sets_;  // set 0 is the one that is checked
  std::size_t next_set_ = 0;
  bool rotates_ = false;
  std::unique_ptr<Oracle> oracle_;
  double oracle_ms_ = 0;
  bool checks_whole_ = false;
  bool mistrusted_ = false;
  std::vector<std::byte> workspace_;
  std::byte* workspace_begin_ = nullptr;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace dlblas
