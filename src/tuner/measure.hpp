// Runs candidates on inputs of our own: is the result right, and how long does it take? In:
// (Problem, Plans, seed, the caller's sizes and copies of its index arguments), nothing else of the
// caller's, so that a worker process can do it as well. Out: a kind of failure, or milliseconds.
// Two implementations: this process (in_process.hpp), and another one that may be killed
// (worker_measurer.hpp); tune chooses.
// The library's only clock is here; tests bring their own. Flow: tune > inputs > [measure].
// Read next: tuner/in_process.hpp; tuner/race.hpp, which decides what is measured.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "dispatch/dispatch.hpp"
#include "tuner/sample_cost.hpp"

namespace dlblas {

/// Nanoseconds of a clock that never goes back.
using ClockFn = std::int64_t (*)();
std::int64_t steady_nanoseconds();

enum class Failure : std::uint8_t {
  kNone,
  kCompileError,    // preparing threw, or no block of it fits on the device
  kCompileTimeout,  // preparing took too long
  kLaunchError,     // a step returned a code, or threw; or the device reported an error
  kIllegalAccess,   // the device reported one after which its context is of no use
  kOutOfMemory,     // it asked for more than there is
  kTimeout,         // a run did not come back in time
  kCrash,           // the process that ran it ended
  kOutOfBounds,     // a byte outside the results (or the workspace) changed
  kUnwritten,       // an element kept both poison patterns
  kWrongResult,     // an element is further from the oracle than its bound
  kUnjudged,        // a user's: what the oracle says would be right of almost anything
};
inline constexpr int kNumFailures = 12;
/// The name in records and reports: "wrong_result", …; "" for kNone.
std::string_view name_of(Failure failure);

struct Check {
  Failure failure = Failure::kNone;
  std::string note = {};  // what exactly, for people
  double error = 0;       // worst |out − ref| over its bound
  double ms = 0;          // of one run, the second
  double limit_s = 0;     // of one that was ended for its time: how much it had
  /// Where `check` compares chosen rows with the oracle: every other element agrees with the
  /// correct result of another implementation.
  bool beside = false;
  /// Another candidate may be the cause, and there was no time to find out: no record says that
  /// this one failed.
  bool unsure = false;
};

/// Thrown by `sample` and `check_whole` when more is known than that a launch failed.
class CandidateError : public Error {
 public:
  CandidateError(Failure failure, const std::string& note, bool unsure = false)
      : Error(ErrorKind::kLaunch, note), failure_(failure), unsure_(unsure) {}
  Failure failure() const { return failure_; }
  bool unsure() const { return unsure_; }  // as a Check's

 private:
  Failure failure_;
  bool unsure_;
};

struct MeasureRequest {
  const Operator& op;
  const Problem& problem;
  std::uint64_t seed;
  const Args* caller;  // may be null
  const Context& context;
  ClockFn clock;
};

/// What a user's first call may take without counting against the budget: it may import torch, and
/// compile itself. DLBLAS_FIRST_CALL_SECONDS, else 30.
double first_call_seconds();

class Measurer {
 public:
  Measurer() = default;
  virtual ~Measurer() = default;
  Measurer(const Measurer&) = delete;
  Measurer& operator=(const Measurer&) = delete;

  /// Two runs, on results poisoned with a different byte pattern each, both compared with the
  /// oracle.
  virtual Check check(const Plan& plan) = 0;
  /// As check, for a candidate whose results were not compared with another implementation's:
  /// `rival`, which was right, runs before it.
  virtual Check check_beside(const Plan& plan, const Plan& rival) {
    check(rival);
    return check(plan);
  }
  /// One run, with every element of its results compared with the oracle: what the winner must
  /// pass. Throws Error where the launch does.
  virtual Check check_whole(const Plan& plan) = 0;
  /// Milliseconds that check_whole takes, estimated from the oracle's time for the rows it has
  /// computed.
  virtual double whole_cost_ms() const = 0;
  /// True when `check` compares every element already.
  virtual bool checks_whole() const = 0;

  /// Milliseconds of one run of a kernel that takes about `ms`. Throws Error(kLaunch).
  virtual double sample(const Plan& plan, double ms) = 0;
  virtual SampleCost sample_cost() const = 0;
  /// Milliseconds that `sample` takes altogether.
  double sample_cost_ms(double ms) const { return sample_cost().of(ms); }

  /// Seconds that the next candidate may take even if it does nothing: the start of a worker, and
  /// the wait until it counts as hanging.
  virtual double least_s() const { return 0; }
  /// Seconds so far that do not count: first calls of users' candidates.
  virtual double beside_s() const { return 0; }

  /// How many candidates are compiled in parallel.
  virtual int compiles_at_once() const { return 1; }
  /// Compiles them, and moves those that spill registers to the end. `check` reports what does not
  /// compile.
  virtual void compile_ahead(std::vector<const Plan*>&) {}

  /// How it was measured, for the record: "cache", …, in the order of a report.
  virtual Fields conditions() const = 0;
  virtual bool mistrusted() const = 0;
  /// Nothing can be measured in this process any more: a kernel broke the device's context.
  virtual bool lost() const = 0;
  /// After `sample` or `check_whole` has thrown: finds out whether the device is lost.
  virtual void look_after_failure() {}
  /// True if the last answer is void: the caller wants to stop, or measuring had to end
  /// (ended_because).
  virtual bool interrupted() const { return false; }
  /// Why nothing more can be measured, for people; empty while it can.
  virtual std::string ended_because() const { return {}; }
  /// "process" or "worker": where most of it ran.
  virtual std::string_view place() const = 0;
};

/// The measurer of the problem's device, in this process. Throws Error(kTuning) where nothing may
/// be measured now.
std::unique_ptr<Measurer> make_measurer(const MeasureRequest& request);
/// True if the caller's stream is being captured into a graph: nothing is measured meanwhile.
bool under_capture(const Problem& problem, const Context& context);
/// Throws Error(kTuning) while the caller's stream is being captured into a graph: nothing may be
/// measured then, not even in a worker.
void refuse_under_capture(const MeasureRequest& request);

}  // namespace dlblas
