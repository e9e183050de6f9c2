// One search within a budget: defaults first, then the strategy's points, a few samples each; then
// an interleaved final of the best. In: a search space, a Measurer, limits. Out: every evaluated
// point with its samples or its failure, and the winner.
// Flow: tune > [race] > measure.  Read next: store/ranking.hpp (which candidate wins).
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dlblas/dlblas.h"
#include "tuner/measure.hpp"
#include "tuner/strategy.hpp"

namespace dlblas {

/// A point that was tried.
struct Evaluated {
  int id = -1;  // in the search space
  std::unique_ptr<Plan> plan;
  Failure failure = Failure::kNone;
  std::string note;           // how it failed
  bool broke_device = false;  // nothing can be measured in this process after it
  double error = 0;           // over its bound
  double limit_s = 0;         // of one that was ended for its time: how much it had
  bool unsure = false;        // another one may have been the cause of its failure
  double expected_ms = -1;    // of one whose samples are far above it: load, or a wrong model
  // Samples of the race, rescaled to the machine's pace when the race began; a finalist has those
  // of the final alone, as measured.
  std::vector<double> samples_ms;
};

struct RaceLimits {
  double budget_s = 10;
  std::int64_t begin_ns = 0;  // when the budget began: making inputs counts
  int max_evaluations = 0;    // 0: the budget alone
};

struct RaceInput {
  const SearchSpace& space;
  Strategy& strategy;
  std::vector<int> first;      // ids tried before the strategy is asked: defaults, the incumbent
  std::vector<bool> eligible;  // by id: may win; the others are there to be compared with
  int default_id = -1;         // the first implementation's default
  int preset_id = -1;          // the first one's that is eligible: what a winner has to beat
  std::vector<int> incumbent_ids;  // what the store serves so far: of all, and of what may win
  bool anchors(int id) const {
    return id == default_id || id == preset_id ||
           std::find(incumbent_ids.begin(), incumbent_ids.end(), id) != incumbent_ids.end();
  }
};

class Race {
 public:
  using OnEvent = std::function<bool(const dlblas_event&)>;  // true: stop

  Race(const Problem& problem, Measurer& measurer, RaceLimits limits, ClockFn clock,
       OnEvent on_event);
  void run(const RaceInput& input);

  /// Everything that was tried, in order of id; once.
  std::vector<Evaluated> take() { return std::move(evaluated_); }
  /// Index into the result of take(), or −1 when nothing eligible has a time.
  int winner() const { return winner_; }
  bool stopped() const { return stopped_; }
  int final_rounds() const { return final_rounds_; }
  double elapsed_s() const;

 private:
  /// Compiles in parallel, then checks and measures one by one; returns how many.
  int evaluate_all(const RaceInput& input, const std::vector<int>& ids);
  void evaluate(const RaceInput& input, Evaluated e);
  Check check_every_element(const Plan& plan);
  void measure(Evaluated& e, const Check& check);
  void follow(double pace, Evaluated& e);
  void take_again(Evaluated& e, const Check& check);
  void take_later();
  void pace(std::vector<double>& beside);
  void find_best();
  void keep_reference();
  bool has_room(double for_s) const;
  template <typename Launch>
  bool survives(Evaluated& e, const Launch& launch);
  void drop(Evaluated& e);
  void search(const RaceInput& input);
  std::vector<std::size_t> finalists(const RaceInput& input, double left_s) const;
  void run_final(const RaceInput& input);
  std::vector<std::size_t> best_and_preset(const RaceInput& input) const;
  bool run_round(const std::vector<std::size_t>& chosen, std::vector<std::vector<double>>& samples);
  bool is_late(double for_s) const;
  void settle(const RaceInput& input);
  int pick(const RaceInput& input) const;
  /// Whether the winner is compared in full, and how long that takes.
  bool compares_whole() const;
  double whole_s() const;
  double reserve_s() const;
  bool asked_to_stop();
  void tell(dlblas_event_kind kind, const Evaluated* of, const std::string& note);
  void log_step(dlblas_event_kind kind, const Evaluated* of, const std::string& note) const;
  double score(const Evaluated& e) const;
  static bool has_time(const Evaluated& e);

  const Problem problem_;
  Measurer& measurer_;
  const RaceLimits limits_;
  const ClockFn clock_;
  const OnEvent on_event_;
  std::vector<Evaluated> evaluated_;
  std::set<const Implementation*> introduced_;  // users', whose first call was told
  std::string best_name_;
  double best_ms_ = -1, best_took_s_ = 0;  // to be checked and measured
  int best_ = -1;                          // index into evaluated_
  // The candidate that paces the others, and its time when it was first measured.
  int reference_ = -1;
  double reference_ms_ = -1;
  double slowdown_ = 1, fastest_pace_ = 1;  // of the machine, since the search began
  double until_s_ = 0;                      // of a final that began late
  int planned_ = 0, failed_ = 0, winner_ = -1, final_rounds_ = 0;
  bool stopped_ = false, hung_ = false;  // some candidate has
};

}  // namespace dlblas
