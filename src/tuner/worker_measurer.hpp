// Measuring in a worker: a Measurer that asks another process, gives every answer its time, and
// starts a new process when one ends. What a worker cannot have (a closure, an implementation that
// only this process registered) is measured here. In: a way to start a worker, the search's limits.
// Out: what measuring in this process would have said, or how the candidate ended its process.
// Flow: tune > race > [measure] > worker_process.  Read next: tuner/worker_serve.cpp,
// docs/tuning.md ("In a worker").
#pragma once

#include <map>
#include <optional>
#include <set>

#include "tuner/measure.hpp"
#include "tuner/worker_link.hpp"
#include "tuner/worker_wire.hpp"

namespace dlblas {

struct WorkerTerms {
  worker::Start start;
  worker::Waiting waiting;   // true: the caller wants no more
  worker::Waiting starting;  // told before each start; the same answer
  bool imports = false;      // a user's modules: starts are beside the budget
  double budget_s = 10;
  std::int64_t begin_ns = 0;  // when the budget began
};

class WorkerMeasurer final : public Measurer {
 public:
  /// Starts a worker and opens the search there. Throws worker::Unusable if none is available,
  /// Error where measuring here would throw it.
  WorkerMeasurer(const MeasureRequest& request, WorkerTerms terms);

  Check check(const Plan& plan) override;
  Check check_beside(const Plan& plan, const Plan& rival) override;
  Check check_whole(const Plan& plan) override;
  double whole_cost_ms() const override { return opened_.whole_ms; }
  bool checks_whole() const override { return opened_.checks_whole; }
  double sample(const Plan& plan, double ms) override;
  SampleCost sample_cost() const override { return opened_.cost; }
  double least_s() const override;
  double beside_s() const override { return beside_s_ + (local_ ? local_->beside_s() : 0); }
  int compiles_at_once() const override { return opened_.compiles_at_once; }
  void compile_ahead(std::vector<const Plan*>& plans) override;
  Fields conditions() const override;
  bool mistrusted() const override { return mistrusted_ || (local_ && local_->mistrusted()); }
  bool lost() const override { return local_ && local_->lost(); }
  void look_after_failure() override;
  bool interrupted() const override { return interrupted_; }
  std::string ended_because() const override { return ended_because_; }
  std::string_view place() const override { return "worker"; }

 private:
  /// What a candidate may take: as others tell, or while nothing is known of any.
  struct Limits {
    double compile_s, run_s;
  };
  Limits limits_of(const Plan& plan) const;
  bool is_first_call(const Implementation& impl) const {
    return impl.flags.user && called_.count(&impl) == 0;
  }
  Check check_there(const Plan& plan);
  double room_s(double wanted_s) const;
  double patience_s() const;
  double free_start_s() const;
  double left_s() const;

  /// Makes sure of a worker with the search open. False: none is available any more, and measuring
  /// ends.
  bool ready();
  void begin();
  void open();
  worker::Opened read_opened(const std::string& reply) const;
  /// Asks about a candidate. If the worker ends, that is the candidate's failure, unless the worker
  /// had run others: then it gets another chance in a fresh one. Nullopt: the worker does not have
  /// it.
  std::optional<worker::Outcome> ask(worker::Request what, const Plan& plan, double limit_s,
                                     double ms = 0);
  worker::Candidate candidate_of(const Plan& plan) const;
  worker::Outcome ended(worker::Request what, const worker::Exchange& exchange, double limit_s);
  std::optional<worker::Outcome> read(const std::string& reply);
  /// The measurer of this process, for what the worker cannot have; null for the others.
  Measurer* here(const Plan& plan);
  void keep_here(const Plan& plan);
  double seconds_since(std::int64_t begin_ns) const {
    return static_cast<double>(request_.clock() - begin_ns) * 1e-9;
  }

  const MeasureRequest request_;
  const Problem problem_;
  const WorkerTerms terms_;
  worker::Waiting waiting_;  // the terms', remembering a stop
  bool stop_ = false;
  std::string opening_;  // as it is sent to every worker of this search
  worker::Opened opened_;
  mutable std::unique_ptr<worker::Link> link_;
  mutable Fields conditions_;  // the last ones that a worker told
  std::unique_ptr<Measurer> local_;
  std::set<const Implementation*> kept_here_;
  // By the configuration's text where an implementation has parts; else by "" for all of them.
  mutable std::map<std::pair<const Implementation*, std::string>, std::string> identities_;
  std::set<std::string> met_;  // candidates that this worker was asked about, one by one
  bool met_batch_ = false;     // and it has compiled a batch
  // What an implementation's first correct check took: imports, a compiler, a library's start.
  std::map<const Implementation*, double> first_check_s_;
  std::set<const Implementation*> called_;  // that had their first call
  double hung_s_ = 0;                       // lost in first calls that did not come back
  double beside_s_ = 0;                     // what users' first calls and their imports took
  double imports_s_ = 0;                    // of that, the imports
  double greet_s_ = 0, open_s_ = 0;         // of the last worker: its start, its search's opening
  double slowest_compile_s_ = 0, slowest_check_s_ = 0;  // of right ones; checks: after the first
  bool any_right_ = false;
  bool mistrusted_ = false, interrupted_ = false;
  std::string ended_because_;
};

}  // namespace dlblas
