// Measuring in this process: checking candidates is one flow for every device; memory, oracle and
// timing are the device's. A candidate that hangs or crashes takes the process with it, so usually
// a worker does this (worker_measurer.hpp). Flow: tune > inputs > [measure].  Read
// next: tuner/looks.cpp, tuner/host_measurer.cpp, tuner/cuda_measurer.hpp.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <set>
#include <string>

#include "tuner/fork_watch.hpp"
#include "tuner/inputs.hpp"
#include "tuner/kept_results.hpp"
#include "tuner/measure.hpp"
#include "tuner/verifier.hpp"

namespace dlblas {

class InProcessMeasurer : public Measurer {
 public:
  Check check(const Plan& plan) override;
  Check check_whole(const Plan& plan) override;
  double whole_cost_ms() const override;
  bool checks_whole() const override { return checks_whole_; }
  double beside_s() const override { return beside_s_; }
  bool mistrusted() const override { return mistrusted_; }
  bool lost() const override { return lost_; }
  void look_after_failure() override { lost_ = lost_ || !alive(); }
  std::string_view place() const override { return "process"; }

 protected:
  InProcessMeasurer(const MeasureRequest& request, std::unique_ptr<Memory> memory);
  /// Makes set 0 and its verifier. Called by the constructors of the devices' measurers.
  void open(const MeasureRequest& request);
  /// A verifier for a call of `problem`; `args` has its inputs as they are before the call.
  virtual std::unique_ptr<Verifier> make_verifier(const Problem& problem, const Args& args,
                                                  std::vector<std::int64_t> rows,
                                                  ClockFn clock) = 0;
  std::unique_ptr<Verifier> make_verifier(std::vector<std::int64_t> rows) {
    return make_verifier(problem_, sets_.front().args(), std::move(rows), clock_);
  }
  /// Runs once and waits; `ms` is the time. Returns a step's code, or throws.
  virtual int run_once(const Kernel& kernel, const CallData& data, double& ms) = 0;
  /// Why the compiled kernel cannot be launched; empty when it can.
  virtual std::string refusal_of(const Plan&, const Kernel&) const { return {}; }
  /// After a failed launch: whether this process can still use the device.
  virtual bool alive() { return true; }

  int run(const Kernel& kernel, const CallData& data);
  /// A step's code in words.
  std::string words_of(int code) const;
  /// Memory for the kernel's workspace, with room for guards.
  void reserve_workspace(const Kernel& kernel);
  /// Before a checked run: puts guards around the workspace, and dirt in it.
  void guard_workspace();
  virtual void workspace_moves() {}
  std::byte* workspace() const;  // null: the kernel has none
  bool workspace_intact() const;

  const Operator& op_;
  const Problem problem_;
  Context context_;
  const std::unique_ptr<Memory> memory_;
  const ClockFn clock_;
  // Above this many elements `check` compares chosen rows: a search has hundreds of candidates, and
  // comparing each in full would use up the budget. The winner is still compared in full.
  static constexpr std::int64_t kMaxCheckedElements = 1 << 22;
  static constexpr int kPatterns[] = {GuardedTensor::kGuardByte, 0x5c};
  std::deque<CallData> sets_;  // set 0 is the one that is checked
  std::unique_ptr<Verifier> verifier_;

 private:
  using Digests = std::optional<std::array<std::uint64_t, kMaxTensors>>;
  struct Suspects {  // per result: elements that kept the first pattern
    std::vector<std::vector<std::int64_t>> kept;
  };
  Check check_here(const Plan& plan);
  bool check_run(const Plan& plan, const Kernel& kernel, int pattern, Suspects& suspects,
                 Check& result);
  /// Before a candidate runs: makes sure that the inputs hold their original values.
  void renew_inputs(const Plan& plan);
  /// After a user's candidate ran: an input that it wrote, which no other candidate may read; or
  /// empty.
  std::string written_input(const Plan& plan);
  /// Gives set 0 this look's data, until the look ends. False: this look would not differ from the
  /// first.
  bool show(const Plan& plan, Look look);
  /// The first use of a look: finds how much of its Variety the operator takes. False: nothing.
  bool open_look(Look look);
  bool open_scalars();
  void open_elsewhere();
  /// Fills set 0 for the look with this variety, and returns a verifier of it; null if the
  /// reference refuses.
  std::unique_ptr<Verifier> try_look(Look look, const Variety& variety);
  /// The verifier of the first call.
  std::unique_ptr<Verifier> first_verifier(const std::vector<std::int64_t>& rows);
  /// Restores set 0 to the first call.
  void end_look();
  struct FirstAgain {
    explicit FirstAgain(InProcessMeasurer& of) : measurer(of) {}
    ~FirstAgain();
    FirstAgain(const FirstAgain&) = delete;
    FirstAgain& operator=(const FirstAgain&) = delete;
    InProcessMeasurer& measurer;
  };
  /// One run of a look other than the first, and its verifier's verdict.
  Check check_look(const Plan& plan, const Kernel& kernel, Look look, double& error);
  /// After a run in such a look: what is wrong; or empty.
  std::string wrong_for_others(double& error);
  /// The rows that are judged in other looks, and how long their oracles are still going to take.
  std::vector<std::int64_t> other_rows() const;
  double others_ms() const;
  /// One run on poisoned results; also reports writes that are not allowed.
  Check run_guarded(const Plan& plan, const Kernel& kernel, int pattern);
  /// One run; turns a step's code, an exception or a failed allocation into a Check.
  Check try_run(const Kernel& kernel, const CallData& data);
  Check try_run(const Kernel& kernel) { return try_run(kernel, sets_.front()); }
  /// A user's candidate on a smaller size of the same key: what is wrong, or nothing.
  Check check_smaller(const Kernel& kernel);
  /// False: the key has no other size, or there is no memory for one.
  bool has_smaller();
  bool is_out_of_memory(int code) const;
  Verdict compare_whole();
  /// Compares every element that the last run left with what other candidates left there, where the
  /// oracle has only chosen rows. Reports in `found` what is wrong, and whether another
  /// implementation agrees.
  void compare_with_others(const Kernel& kernel, Check& found);
  /// The same for one of them; false: that one is wrong.
  bool compare_with(const KeptResults& other, Check& found);
  /// True if no results of its implementation are kept yet, and there is room for them.
  bool keeps(const Kernel& kernel) const;
  bool check_written(const Kernel& kernel, int pattern, Suspects& suspects, Check& result);
  /// Those of the elements that also keep the first pattern on the second run's values.
  std::vector<std::int64_t> still_kept(const Kernel& kernel, int r,
                                       const std::vector<std::int64_t>& elements);
  /// Those of the elements that the oracle defines.
  std::vector<std::int64_t> defined_of_result(int r, const std::vector<std::int64_t>& elements);

  struct Release {
    Memory* memory;
    void operator()(std::byte* p) const { memory->release(p); }
  };
  bool checks_whole_ = false;
  std::set<const Implementation*> called_;  // users', that had their first call
  double beside_s_ = 0;                     // what those took
  std::set<const Kernel*> right_;  // so far: a second check of one counts no second candidate
  const std::uint64_t seed_;
  std::vector<std::int64_t> rows_;                        // that verifier_ compares
  std::unique_ptr<Verifier> other_verifiers_[kNumLooks];  // null: not needed yet
  // The results of the first correct candidates of two implementations.
  struct Other {
    const Kernel* kernel;
    std::unique_ptr<KeptResults> results;
  };
  std::vector<Other> others_;
  // A call of other sizes, made when the first user's candidate comes.
  struct Smaller {
    Smaller(const Operator& op, const Problem& p, std::uint64_t seed, Memory& memory)
        : problem(p), data(op, p, seed, nullptr, memory) {}
    Problem problem;
    CallData data;
    std::unique_ptr<Verifier> verifier;
    std::array<std::uint64_t, kMaxTensors> digests{};
  };
  std::unique_ptr<Smaller> smaller_;
  bool asked_smaller_ = false;
  bool keeps_scalars_ = false;  // the reference takes no others
  Variety variety_;             // what the operator takes
  bool telling_ = false;        // some look's reference says something
  Look look_ = Look::kFirst;    // what set 0 holds
  Digests digests_[kNumLooks];  // once a user's candidate came
  bool doubtful_ = false;       // a user's candidate has run since the inputs were looked at
  bool mistrusted_ = false;
  bool lost_ = false;
  ForkWatch forks_;
  std::unique_ptr<std::byte, Release> workspace_;
  std::size_t workspace_room_ = 0, workspace_bytes_ = 0;
  bool new_check_ = true;  // no run of it yet
};

std::unique_ptr<Measurer> make_host_measurer(const MeasureRequest& request);

}  // namespace dlblas
