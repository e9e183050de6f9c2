// Runs candidates on inputs of our own: is the result right, and how long does it take?
// In: (Problem, Plans, seed, copies of index arguments), nothing else of the caller's, so that a
// worker process can do it as well. Out: a kind of failure, or milliseconds.
// Checking is one flow for every device; memory, oracle and timing are the device's. The only clock
// of the library is here; tests bring their own.
// Flow: tune > inputs > [measure].  Read next: tuner/host_measurer.cpp, tuner/cuda_measurer.hpp;
// tuner/race.hpp, which decides what is measured.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/dispatch.hpp"
#include "tuner/inputs.hpp"
#include "tuner/judge.hpp"

namespace dlblas {

/// Nanoseconds of a clock that never goes back.
using ClockFn = std::int64_t (*)();
std::int64_t steady_nanoseconds();

enum class Failure : std::uint8_t {
  kNone,
  kCompileError,  // preparing threw, or no block of it fits on the device
  kLaunchError,   // a step returned a code, or threw; or the device reported an error
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

struct MeasureRequest {
  const Operator& op;
  const Problem& problem;
  std::uint64_t seed;
  const Args* caller;  // may be null
  const Context& context;
  ClockFn clock;
};

class Measurer {
 public:
  virtual ~Measurer() = default;
  Measurer(const Measurer&) = delete;
  Measurer& operator=(const Measurer&) = delete;

  /// Two runs on results poisoned with two byte patterns in turn, both compared with the oracle.
  Check check(const Plan& plan);
  /// One run, every element of its results against the oracle: what the winner must pass. Throws
  /// Error where the launch does.
  Check check_whole(const Plan& plan);
  /// What check_whole takes, from how long the oracle took for the rows it did; milliseconds.
  double whole_cost_ms() const;
  /// True when `check` compares every element already.
  bool checks_whole() const { return checks_whole_; }

  /// Milliseconds of one run of a kernel that takes about `ms`. Throws Error(kLaunch).
  virtual double sample(const Plan& plan, double ms) = 0;
  /// What `sample` takes altogether, milliseconds.
  virtual double sample_cost_ms(double ms) const = 0;

  /// How many candidates are compiled side by side.
  virtual int compiles_at_once() const { return 1; }
  /// Compiles them, and moves those that spill registers to the end. Who does not compile is told
  /// by `check`.
  virtual void compile_ahead(std::vector<const Plan*>&) {}

  /// How it was measured, for the record: "cache", …, in the order of a report.
  virtual Fields conditions() const = 0;
  bool mistrusted() const { return mistrusted_; }
  /// Nothing can be measured in this process any more: a kernel broke the device's context.
  bool lost() const { return lost_; }
  /// After `sample` or `check_whole` has thrown: finds out whether the device is lost.
  void look_after_failure() { lost_ = lost_ || !alive(); }

 protected:
  Measurer(const MeasureRequest& request, std::unique_ptr<Memory> memory);
  /// Makes set 0 and its judge. Called by the constructors of the devices' measurers.
  void open(const MeasureRequest& request);
  virtual std::unique_ptr<Judge> make_judge(std::vector<std::int64_t> rows, ClockFn clock) = 0;
  /// Runs once and waits; `ms` is the time. Returns a step's code, or throws.
  virtual int run_once(const Kernel& kernel, const CallData& data, double& ms) = 0;
  /// Why the compiled kernel cannot be launched; empty when it can.
  virtual std::string refusal_of(const Plan&, const Kernel&) const { return {}; }
  /// After a failed launch: can this process still use the device?
  virtual bool alive() { return true; }

  int run(const Kernel& kernel, const CallData& data);
  /// A step's code in words.
  std::string words_of(int code) const;
  /// Memory for the kernel's workspace, with fresh guards.
  void reserve_workspace(const Kernel& kernel);
  virtual void workspace_moves() {}
  bool workspace_intact() const;

  const Operator& op_;
  const Problem problem_;
  Context context_;
  const std::unique_ptr<Memory> memory_;
  std::deque<CallData> sets_;  // set 0 is the one that is checked
  std::unique_ptr<Judge> judge_;

 private:
  struct Suspects {  // per result: elements that kept the first pattern
    std::vector<std::vector<std::int64_t>> kept;
  };
  bool check_run(const Kernel& kernel, int pattern, Suspects& suspects, Check& result);
  Verdict compare_whole();
  bool check_written(int pattern, Suspects& suspects, Check& result);

  struct Release {
    Memory* memory;
    void operator()(std::byte* p) const { memory->release(p); }
  };
  bool checks_whole_ = false;
  bool mistrusted_ = false;
  bool lost_ = false;
  std::unique_ptr<std::byte, Release> workspace_;
  std::size_t workspace_room_ = 0, workspace_bytes_ = 0;
};

/// The measurer of the problem's device. Throws Error(kTuning) where nothing may be measured now.
std::unique_ptr<Measurer> make_measurer(const MeasureRequest& request);
std::unique_ptr<Measurer> make_host_measurer(const MeasureRequest& request);

}  // namespace dlblas
