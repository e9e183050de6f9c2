// The search within its budget; see race.hpp.
#include "tuner/race.hpp"

#include <algorithm>
#include <map>

#include "core/digits.hpp"
#include "core/error.hpp"
#include "core/harmless.hpp"
#include "core/log.hpp"
#include "store/ranking.hpp"

namespace dlblas {
namespace {

constexpr int kRaceSamples = 2;  // for all; with kMoreSamples still fewer than a finalist has
constexpr int kMoreSamples = 2;  // for those within kNear of the best
// Clocks fall under load, and rise when idle. A candidate that is slower by this factor is not slow
// because of clocks.
constexpr double kNear = 2;
constexpr double kBusy = 3;  // times the fastest pace: other work beside it, and none of its own
constexpr double kLongRunMs = 1.0;
constexpr double kFarOff = 5;  // times what was expected: taken again, so often:
constexpr int kTakenAgain = 2;
constexpr int kTakenLater = 8;  // candidates, once more when the search has ended
constexpr double kVeryLongRunMs = 20.0;
constexpr int kFinalists = 8;
constexpr int kFinalRounds = 30;
constexpr double kFinalShare = 0.25;  // of the budget, at most
constexpr double kOverrun = 1.05;    // of the budget: here a final that has not decided is given up
constexpr double kMaxOverrun = 1.1;  // what it may take in the end
// If compiling the defaults took the whole budget, a final of the best and the preset may still
// take this share of the time spent; otherwise a late final takes at most the second.
constexpr double kLateShare = 0.25;
constexpr double kBriefShare = 0.05;
static_assert(kRaceSamples + kMoreSamples < kFinalSamples,
              "ranking tells finalists by their samples");

std::string name_of(const Plan& plan) {
  return text(plan.implementation->name, " ", plan.implementation->table().print(plan.config));
}

}  // namespace

Race::Race(const Problem& problem, Measurer& measurer, RaceLimits limits, ClockFn clock,
           OnEvent on_event)
    : problem_(problem),
      measurer_(measurer),
      limits_(limits),
      clock_(clock),
      on_event_(std::move(on_event)) {}

double Race::elapsed_s() const {
  return static_cast<double>(clock_() - limits_.begin_ns) * 1e-9 - measurer_.beside_s();
}
double Race::score(const Evaluated& e) const { return score_ms(e.samples_ms); }

void Race::run(const RaceInput& input) {
  planned_ = static_cast<int>(input.space.points.size());
  if (limits_.max_evaluations > 0) planned_ = std::min(planned_, limits_.max_evaluations);
  tell(DLBLAS_EVENT_START, nullptr, text(input.space.points.size(), " configurations"));
  evaluate_all(input, input.first);
  search(input);
  if (!stopped_) run_final(input);
  std::sort(evaluated_.begin(), evaluated_.end(),
            [](const Evaluated& a, const Evaluated& b) { return a.id < b.id; });
  settle(input);
}

bool Race::compares_whole() const {
  return !measurer_.checks_whole() && measurer_.whole_cost_ms() < 100 * limits_.budget_s;
}
double Race::whole_s() const { return compares_whole() ? 1e-3 * measurer_.whole_cost_ms() : 0; }

// The time that the final is going to take, judged by the best so far: reserved while searching.
double Race::reserve_s() const {
  const double sample_ms = measurer_.sample_cost_ms(slowdown_ * best_ms_);
  const double reserve = 1.2e-3 * sample_ms * kFinalRounds * (kFinalists + 1);
  return std::min(reserve, kFinalShare * limits_.budget_s) + whole_s();
}

// True if there is time for one more candidate, and for the final after it.
bool Race::has_room(double for_s) const {
  return elapsed_s() + measurer_.least_s() + for_s + reserve_s() <= limits_.budget_s;
}

void Race::search(const RaceInput& input) {
  const auto limit = static_cast<std::size_t>(planned_);
  const double begin = elapsed_s();
  int searched = 0;
  while (!stopped_ && evaluated_.size() < limit) {
    // What one evaluation takes on average in this search; a slower one eats into the final.
    if (!has_room(searched > 0 ? (elapsed_s() - begin) / searched : best_took_s_)) return;
    const int room = static_cast<int>(limit - evaluated_.size());
    const std::vector<int> ids = input.strategy.ask(std::min(room, measurer_.compiles_at_once()));
    if (ids.empty()) return;
    searched += evaluate_all(input, ids);
  }
}

// In the order that compiling ahead gives, within the budget. The initial points may exceed it,
// except those that are left when hanging ones have used it up.
int Race::evaluate_all(const RaceInput& input, const std::vector<int>& ids) {
  std::map<const Plan*, Evaluated> made;
  std::vector<const Plan*> order;
  for (const int id : ids) {
    const Point& point = input.space.points[static_cast<std::size_t>(id)];
    Evaluated e;
    e.id = id;
    e.plan = std::make_unique<Plan>();
    e.plan->problem = problem_;
    e.plan->implementation = point.implementation;
    e.plan->config = point.config;
    order.push_back(e.plan.get());
    made.emplace(e.plan.get(), std::move(e));
  }
  if (!stopped_) measurer_.compile_ahead(order);
  stopped_ |= measurer_.interrupted();
  const bool is_first = &ids == &input.first;
  int done = 0;
  for (const Plan* plan : order) {
    if (stopped_) break;
    Evaluated& e = made[plan];
    const bool must = is_first && (!hung_ || best_ < 0 || input.anchors(e.id));
    const bool fits =
        is_first ? elapsed_s() + measurer_.least_s() <= limits_.budget_s : has_room(0);
    if (!must && !fits) continue;
    evaluate(input, std::move(e));
    ++done;
  }
  return std::max(1, done);
}

// Runs `launch` for a candidate that was right so far. An error is its failure; false: it is out.
template <typename Launch>
bool Race::survives(Evaluated& e, const Launch& launch) {
  try {
    launch();
    return true;
  } catch (const CandidateError& error) {
    e.failure = error.failure();
    e.note = error.what();
    e.unsure = error.unsure();
  } catch (const Error& error) {  // right twice, and yet it cannot be repeated, or captured
    e.failure = Failure::kLaunchError;
    e.note = error.what();
  }
  if (measurer_.interrupted()) {  // its own doing it was not
    e.failure = Failure::kNone;
    e.note.clear();
    stopped_ = true;
    return false;
  }
  e.samples_ms.clear();
  measurer_.look_after_failure();
  if (measurer_.lost()) e.failure = Failure::kIllegalAccess;
  return false;
}

// A candidate that fails after being timed loses its samples; the others keep theirs.
void Race::drop(Evaluated& e) {
  e.samples_ms.clear();
  e.broke_device = measurer_.lost();
  stopped_ |= e.broke_device;
  ++failed_;
  tell(DLBLAS_EVENT_FAILED, &e, text(dlblas::name_of(e.failure), ": ", e.note));
}

// Minutes may lie between two candidates, and clocks fall under load. So a candidate that may be
// the best is measured alternately with a reference, and its times are rescaled to the pace at
// which the reference was timed. The reference stays the same: the best so far has been lucky, and
// against it every newcomer would look slow. A sample taken before the reference ran is rescaled by
// the pace of then or of now, whichever gives the longer time; for a candidate that is too far
// ahead of the reference, "now" is the fastest pace. A long run needs no batch. On the host, the
// checked run is a sample and often suffices; on a device, its time includes the host's launch, and
// its caches were warm.
void Race::measure(Evaluated& e, const Check& check) {
  const bool is_long = check.ms > kLongRunMs, is_very_long = check.ms > kVeryLongRunMs;
  // The last run of a user's check had other scalars and sizes: torch.compile compiled for them.
  const bool is_sample =
      is_long && problem_.device_type == DeviceType::kCpu && !e.plan->implementation->flags.user;
  for (int i = 0; i < (is_long ? 1 : kRaceSamples); ++i)
    e.samples_ms.push_back(is_sample ? check.ms : measurer_.sample(*e.plan, check.ms));
  take_again(e, check);
  const std::size_t alone = e.samples_ms.size();
  const double before = slowdown_, ms = score(e) / slowdown_;
  const bool near = best_ < 0 || ms < kNear * best_ms_;
  const bool ahead = reference_ >= 0 && reference_ms_ >= kNear * score(e) / fastest_pace_;
  const bool paced = reference_ >= 0 && near && !ahead;
  const double more_s = (paced ? 3e-3 : 1e-3) * measurer_.sample_cost_ms(slowdown_ * ms);
  std::vector<double> beside;
  for (int i = 0; i < (is_very_long ? 1 : kMoreSamples) && near && !stopped_; ++i) {
    if (elapsed_s() + more_s > limits_.budget_s) break;
    if (paced) pace(beside);
    if (!stopped_) e.samples_ms.push_back(measurer_.sample(*e.plan, check.ms));
    if (paced && !is_very_long) pace(beside);
  }
  if (!beside.empty()) follow(score_ms(beside) / reference_ms_, e);
  const double now = ahead ? fastest_pace_ : slowdown_;
  for (std::size_t i = 0; i < e.samples_ms.size(); ++i)
    e.samples_ms[i] /= i < alone ? std::min(before, now) : now;
}

// A burst of other work during the reference's run says nothing about the candidate: divided by it,
// a time may be one that no machine has. The candidate keeps its time, and gets another chance.
void Race::follow(double pace, Evaluated& e) {
  if (pace <= kBusy * fastest_pace_) {
    slowdown_ = pace;
    fastest_pace_ = std::min(fastest_pace_, pace);
  } else if (e.expected_ms <= 0) {
    e.expected_ms = score(e) / pace;
  }
}

// A time far above the model's or, without a model, the reference's: something else ran meanwhile,
// or the candidate is that slow. Two more samples tell, if they fit.
void Race::take_again(Evaluated& e, const Check& check) {
  const Implementation& impl = *e.plan->implementation;
  double expected_ms = -1;
  if (impl.estimate)
    expected_ms = impl.estimate({problem_, device_info(problem_.device()), impl}, e.plan->config);
  if (expected_ms <= 0) expected_ms = reference_ms_;
  if (expected_ms <= 0 || score(e) <= kFarOff * slowdown_ * expected_ms) return;
  const std::size_t kept = e.samples_ms.size();  // as many as the others have: the best of them
  for (int i = 0; i < kTakenAgain && !stopped_; ++i) {
    if (elapsed_s() + 1e-3 * measurer_.sample_cost_ms(score(e)) > limits_.budget_s) break;
    e.samples_ms.push_back(measurer_.sample(*e.plan, check.ms));
  }
  std::sort(e.samples_ms.begin(), e.samples_ms.end());
  e.samples_ms.resize(kept);
  if (score(e) > kFarOff * slowdown_ * expected_ms) e.expected_ms = expected_ms;
}

// What made them slow may have lasted longer than their samples. Takes the most promising ones of
// those that would compete if they were as fast as expected.
void Race::take_later() {
  std::vector<std::size_t> doubtful;
  for (std::size_t i = 0; i < evaluated_.size(); ++i) {
    const Evaluated& e = evaluated_[i];
    if (e.failure == Failure::kNone && e.expected_ms > 0 && e.expected_ms < kNear * best_ms_ &&
        score(e) > kNear * best_ms_)
      doubtful.push_back(i);
  }
  std::stable_sort(doubtful.begin(), doubtful.end(), [&](std::size_t a, std::size_t b) {
    return evaluated_[a].expected_ms < evaluated_[b].expected_ms;
  });
  if (doubtful.size() > kTakenLater) doubtful.resize(kTakenLater);
  for (const std::size_t i : doubtful) {
    Evaluated& e = evaluated_[i];
    const std::size_t kept = e.samples_ms.size();  // as many as before: a finalist has more
    const double ms = score(e);
    for (int n = 0; n < kTakenAgain && !stopped_; ++n) {
      const double cost_s = 1e-3 * measurer_.sample_cost_ms(ms);
      if (elapsed_s() + measurer_.least_s() + cost_s > limits_.budget_s) break;
      const auto sample = [&] {
        e.samples_ms.push_back(measurer_.sample(*e.plan, ms) / slowdown_);
      };
      if (survives(e, sample)) continue;
      if (!measurer_.interrupted()) drop(e);
      break;
    }
    std::sort(e.samples_ms.begin(), e.samples_ms.end());
    e.samples_ms.resize(std::min(kept, e.samples_ms.size()));
  }
  if (!doubtful.empty()) find_best();
}

// One more sample of the reference.
void Race::pace(std::vector<double>& beside) {
  if (reference_ < 0 || stopped_) return;
  Evaluated& e = evaluated_[static_cast<std::size_t>(reference_)];
  const auto sample = [&] {
    beside.push_back(measurer_.sample(*e.plan, slowdown_ * reference_ms_));
  };
  if (survives(e, sample) || measurer_.interrupted()) return;
  drop(e);
  beside.clear();
  find_best();
  keep_reference();
}

// The first candidate that was right, until it fails or another is far ahead of it.
void Race::keep_reference() {
  const bool alive =
      reference_ >= 0 && evaluated_[static_cast<std::size_t>(reference_)].failure == Failure::kNone;
  if (alive && reference_ms_ < kNear * best_ms_) return;
  reference_ = best_;
  reference_ms_ = best_ms_;
}

void Race::find_best() {
  best_ = -1;
  best_ms_ = -1;
  for (std::size_t i = 0; i < evaluated_.size(); ++i) {
    const Evaluated& e = evaluated_[i];
    if (e.failure != Failure::kNone || (best_ >= 0 && score(e) >= best_ms_)) continue;
    best_ = static_cast<int>(i);
    best_ms_ = score(e);
    best_name_ = name_of(*e.plan);
  }
}

// Where the oracle can afford only chosen rows, the rest is compared with another implementation's
// results. The measurer keeps those of the first candidates. A fresh worker has none of them, and
// neither has this process for a candidate that cannot run in the worker: then the fastest other
// candidate runs there first.
Check Race::check_every_element(const Plan& plan) {
  const Check check = measurer_.check(plan);
  if (check.failure != Failure::kNone || check.beside || measurer_.checks_whole() ||
      measurer_.interrupted())
    return check;
  const Evaluated* rival = nullptr;
  for (const Evaluated& e : evaluated_)
    if (e.failure == Failure::kNone && e.plan->implementation != plan.implementation &&
        (!rival || score(e) < score(*rival)))
      rival = &e;
  return rival ? measurer_.check_beside(plan, *rival->plan) : check;
}

void Race::evaluate(const RaceInput& input, Evaluated e) {
  // Announced before the call: it may import torch and compile itself.
  if (e.plan->implementation->flags.user && introduced_.insert(e.plan->implementation).second)
    tell(DLBLAS_EVENT_FIRST_CALL, &e, "");
  if (stopped_) return;
  const double begin = elapsed_s();
  const Check check = check_every_element(*e.plan);
  e.failure = check.failure;
  e.note = check.note;
  e.error = check.error;
  e.limit_s = check.limit_s;
  e.unsure = check.unsure;
  if (e.failure == Failure::kNone && !measurer_.interrupted())
    survives(e, [&] { measure(e, check); });
  // Not measured, and not its fault: it counts as not begun. Ctrl-C in a user's function in this
  // process looks like a failure of the function.
  if (measurer_.interrupted() || (e.failure != Failure::kNone && asked_to_stop())) {
    stopped_ = true;
    return;
  }
  e.broke_device = measurer_.lost();
  hung_ |= e.failure == Failure::kTimeout || e.failure == Failure::kCompileTimeout;
  const bool ok = e.failure == Failure::kNone;
  failed_ += !ok;
  input.strategy.tell(e.id, ok ? score(e) : -1);
  evaluated_.push_back(std::move(e));
  find_best();
  keep_reference();
  const Evaluated& kept = evaluated_.back();
  if (best_ + 1 == static_cast<int>(evaluated_.size())) best_took_s_ = elapsed_s() - begin;
  stopped_ |= kept.broke_device;
  tell(ok ? DLBLAS_EVENT_MEASURED : DLBLAS_EVENT_FAILED, &kept,
       ok ? std::string() : text(dlblas::name_of(kept.failure), ": ", kept.note));
}

// Indices into evaluated_: default and incumbent, the fastest, then as many of the next as can have
// five rounds in `left_s`. Without the fastest, a final would decide for the default.
std::vector<std::size_t> Race::finalists(const RaceInput& input, double left_s) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < evaluated_.size(); ++i)
    if (evaluated_[i].failure == Failure::kNone) order.push_back(i);
  const auto seeded = [&](std::size_t i) { return input.anchors(evaluated_[i].id); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (seeded(a) != seeded(b)) return seeded(a);
    return score(evaluated_[a]) < score(evaluated_[b]);
  });
  std::vector<std::size_t> chosen;
  double left_ms = left_s * 1e3;
  int fastest = 0;  // besides the seeded
  for (const std::size_t i : order) {
    const double cost_ms =
        kFinalSamples * measurer_.sample_cost_ms(slowdown_ * score(evaluated_[i]));
    if (fastest == kFinalists || (fastest > 0 && cost_ms > left_ms)) break;
    fastest += !seeded(i);
    left_ms -= cost_ms;
    chosen.push_back(i);
  }
  return chosen;
}

void Race::run_final(const RaceInput& input) {
  take_later();
  if (stopped_) return;
  std::vector<std::size_t> chosen = finalists(input, limits_.budget_s - elapsed_s());
  const auto round_of = [&] {
    double s = 0;
    for (const std::size_t i : chosen)
      s += 1e-3 * measurer_.sample_cost_ms(slowdown_ * score(evaluated_[i]));
    return s;
  };
  if (chosen.empty()) return;
  double round_s = round_of();
  if (is_late(kFinalSamples * round_s)) {
    // A sample or two each do not decide between candidates that are nearly as fast.
    const bool defaults_alone = evaluated_.size() <= input.first.size() && failed_ == 0;
    const double room_s = (defaults_alone ? kLateShare : kBriefShare) * elapsed_s();
    chosen = defaults_alone ? best_and_preset(input) : finalists(input, room_s);
    round_s = round_of();
    const double ends_s = elapsed_s() + measurer_.least_s() + kFinalSamples * round_s;
    if (chosen.size() < 2 || ends_s > elapsed_s() + room_s) return;
    // A budget holds within kMaxOverrun, unless a single compilation has already exceeded that.
    const double most_s = kMaxOverrun * limits_.budget_s;
    if (!defaults_alone && elapsed_s() <= most_s && ends_s > most_s) return;
    until_s_ = elapsed_s() + measurer_.least_s() + 1.5 * kFinalSamples * round_s;
  }
  tell(DLBLAS_EVENT_FINAL, nullptr, text(chosen.size(), " configurations, interleaved"));

  std::vector<std::vector<double>> samples(chosen.size());
  while (final_rounds_ < kFinalRounds && !stopped_) {
    const double begin = elapsed_s();
    if (final_rounds_ >= kFinalSamples && begin + round_s + whole_s() > limits_.budget_s) break;
    if (!run_round(chosen, samples)) break;  // a part of a round decides nothing
    round_s = std::max(0.5 * round_s, elapsed_s() - begin);
    ++final_rounds_;
    // Slower than the race said: the slowest are dropped, so that the others reach a decision.
    // Those that finalists() always takes stay.
    while (chosen.size() > 2 && is_late((kFinalSamples - final_rounds_) * round_s) &&
           !input.anchors(evaluated_[chosen[chosen.size() - 2]].id) &&
           final_rounds_ < kFinalSamples) {
      round_s *= static_cast<double>(chosen.size() - 1) / static_cast<double>(chosen.size());
      chosen.pop_back();
    }
  }
  if (final_rounds_ < kFinalSamples) return;  // stopped, or too slow: the race's times stay
  for (std::size_t k = 0; k < chosen.size(); ++k)
    if (evaluated_[chosen[k]].failure == Failure::kNone)
      evaluated_[chosen[k]].samples_ms = std::move(samples[k]);
}

std::vector<std::size_t> Race::best_and_preset(const RaceInput& input) const {
  std::vector<std::size_t> two;
  for (std::size_t i = 0; i < evaluated_.size(); ++i)
    if (evaluated_[i].failure == Failure::kNone &&
        (static_cast<int>(i) == best_ || evaluated_[i].id == input.preset_id))
      two.push_back(i);
  return two;
}

// Includes what the next candidate may take even if it does nothing.
bool Race::is_late(double for_s) const {
  return elapsed_s() + measurer_.least_s() + for_s >
         std::max(until_s_, kOverrun * limits_.budget_s);
}

// One sample of each. False: stopped, or out of time.
bool Race::run_round(const std::vector<std::size_t>& chosen,
                     std::vector<std::vector<double>>& samples) {
  for (std::size_t step = 0; step < chosen.size(); ++step) {
    // Each round begins one further on: a rival's threads may keep spinning for a while after its
    // run, and the same candidate should not always run beside them.
    const std::size_t k = (step + static_cast<std::size_t>(final_rounds_)) % chosen.size();
    Evaluated& e = evaluated_[chosen[k]];
    if (stopped_ || is_late(0)) return false;
    if (e.failure != Failure::kNone) continue;
    const double ms = slowdown_ * score(e);
    if (!survives(e, [&] { samples[k].push_back(measurer_.sample(*e.plan, ms)); }) &&
        !measurer_.interrupted())
      drop(e);
  }
  return !stopped_;
}

int Race::pick(const RaceInput& input) const {
  std::vector<Contender> contenders;
  for (const Evaluated& e : evaluated_) {
    const bool eligible = input.eligible[static_cast<std::size_t>(e.id)];
    contenders.push_back(
        {eligible ? std::span<const double>(e.samples_ms) : std::span<const double>(),
         e.id == input.preset_id});
  }
  return pick_winner(contenders);
}

// The winner is checked once more: it was right twice, and has run many times since. Where `check`
// compares only chosen rows with the oracle, the whole output is compared now: with the oracle if
// that is cheap, else with another implementation's. A winner that fails is out, and the next one
// is tried.
void Race::settle(const RaceInput& input) {
  for (;;) {
    winner_ = pick(input);
    if (winner_ < 0 || stopped_) break;
    if (elapsed_s() + measurer_.least_s() > kMaxOverrun * limits_.budget_s) break;
    const bool whole = compares_whole() && elapsed_s() + whole_s() <= kOverrun * limits_.budget_s;
    Evaluated& e = evaluated_[static_cast<std::size_t>(winner_)];
    Check check;
    const auto again = [&] {
      check = whole ? measurer_.check_whole(*e.plan) : check_every_element(*e.plan);
    };
    if (survives(e, again) && !measurer_.interrupted()) {
      // The oracle's time was an estimate: a timeout is no verdict.
      if (whole && check.failure == Failure::kTimeout) break;
      e.failure = check.failure;
      e.note = check.note;
      e.error = std::max(e.error, check.error);
      e.unsure = check.unsure;
    }
    stopped_ |= measurer_.interrupted();
    if (e.failure == Failure::kNone) break;
    drop(e);
  }
  if (winner_ < 0) return tell(DLBLAS_EVENT_DONE, nullptr, "every configuration failed");
  const Evaluated& won = evaluated_[static_cast<std::size_t>(winner_)];
  best_ms_ = score(won);
  best_name_ = name_of(*won.plan);
  tell(DLBLAS_EVENT_DONE, &won, stopped_ ? "stopped" : "");
}

bool Race::asked_to_stop() {
  tell(DLBLAS_EVENT_WAITING, nullptr, "");
  return stopped_;
}

bool Race::has_time(const Evaluated& e) {
  return e.failure == Failure::kNone && !e.samples_ms.empty();
}

// search,<op>,<problem>,<what>,<implementation>,<configuration>,<time or words>,<done/planned>,<s>
void Race::log_step(dlblas_event_kind kind, const Evaluated* of, const std::string& note) const {
  constexpr const char* kNames[] = {"start", "measured", "failed",     "final",
                                    "done",  "waiting",  "first_call", "worker"};
  const Operator& op = Registry::process().by_id(problem_.op);
  std::string result;
  if (of && has_time(*of)) result = microseconds(score(*of), "us");
  log(LogTopic::kSearch, text(op.schema.name, ",", log_fields(op, problem_), ",", kNames[kind], ",",
                              of ? of->plan->implementation->name : "", ",",
                              of ? of->plan->implementation->table().print(of->plan->config) : "",
                              ",", note.empty() ? result : harmless(note), ",", evaluated_.size(),
                              "/", planned_, ",", decimals(elapsed_s(), 3), "s"));
}

void Race::tell(dlblas_event_kind kind, const Evaluated* of, const std::string& note) {
  if (logs(LogTopic::kSearch) && kind != DLBLAS_EVENT_WAITING) log_step(kind, of, note);
  if (!on_event_) return;
  dlblas_event event{};
  event.size = sizeof event;
  event.kind = kind;
  event.done = static_cast<std::int32_t>(evaluated_.size());
  event.planned = planned_;
  event.failed = failed_;
  const std::string config = of ? of->plan->implementation->table().print(of->plan->config) : "";
  event.implementation = of ? of->plan->implementation->name : "";
  event.config = config.c_str();
  event.note = note.c_str();
  event.milliseconds = of && has_time(*of) ? score(*of) : -1;
  event.best_ms = best_ms_;
  event.best = best_name_.c_str();
  event.elapsed_s = elapsed_s();
  event.budget_s = limits_.budget_s;
  stopped_ |= on_event_(event);
}

}  // namespace dlblas
