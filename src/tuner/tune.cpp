// Tuning of one key; see tune.hpp.
#include "tuner/tune.hpp"

#include <algorithm>
#include <new>

#include "core/counters.hpp"
#include "core/digits.hpp"
#include "core/env.hpp"
#include "core/env_seconds.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/plain_floats.hpp"
#include "dispatch/extent.hpp"
#include "dispatch/stale.hpp"
#include "store/ranking.hpp"
#include "tuner/candidates.hpp"
#include "tuner/choose_measurer.hpp"
#include "tuner/inputs.hpp"
#include "tuner/publish.hpp"
#include "tuner/together.hpp"
#include "tuner/turn.hpp"

namespace dlblas {
namespace {

double budget_of(const TuneOptions& options) {
  if (options.seconds > 0) return options.seconds;
  return env_seconds(EnvVar::kTuneSeconds, 10);
}

// get_op continues a cut search if it has this many times the budget of the longest search so far.
constexpr double kMuchMore = 2;

Store& store_of(const TuneOptions& options) {
  return options.store ? *options.store : Store::process();
}

bool has_elements(const Operator& op, const Problem& problem) {
  const auto sizes = op.schema.sizes_of(problem);
  for (const std::int8_t j : op.schema.judged) {
    bool empty = problem.tensors[j].dtype == DType::kAbsent;
    for (const DimExpr& dim : op.schema.tensors[j].dims) empty |= dim.evaluate(sizes.data()) == 0;
    if (!empty) return true;
  }
  return false;
}

// What operator calls get from now on, as far as the store decides it.
void set_served(TuneReport& report, Store& store) {
  const auto merged = store.load(store_key(*report.op, report.problem));
  const std::vector<CurrentRow> rows = current_rows(*report.op, report.problem, *merged);
  if (const CurrentRow* best = best_row(rows)) {
    report.served = best->implementation;
    report.served_config = best->config;
  }
}

// The report of a key that needs no measuring.
TuneReport settled(TuneReport report, const char* source, const Implementation* winner,
                   const Config& config, const std::string& why) {
  report.source = source;
  report.winner = report.served = winner;
  report.config = report.served_config = config;
  report.why = why;
  return report;
}

std::string sentence(const TuneReport& report, const Evaluated& won, const Evaluated* preset) {
  const auto time = [](const Evaluated& e) { return microseconds(score_ms(e.samples_ms)); };
  if (report.winner->flags.oracle) return "nothing but the reference supports this problem";
  if (!preset || preset->samples_ms.empty())
    return text("the fastest of ", report.evaluated.size(), " measured, ", time(won));
  if (preset == &won)
    return text("the default, ", time(won), ": none of ", report.evaluated.size(),
                " measured is faster by more than 1 % and 2 sigma");
  const std::string ratio = decimals(score_ms(preset->samples_ms) / score_ms(won.samples_ms), 2);
  return text(time(won), " against the default's ", time(*preset), ", ", ratio, " times as fast");
}

// A clause for a search that ended before covering its space.
std::string cut_short(const TuneReport& report, const RaceLimits& limits) {
  std::size_t planned = report.planned;
  if (limits.max_evaluations > 0)
    planned = std::min(planned, static_cast<std::size_t>(limits.max_evaluations));
  if (report.evaluated.size() >= planned) return {};
  const std::string tried =
      text(": ", report.evaluated.size(), " of ", planned, " configurations, ");
  if (report.stopped) return tried + "stopped";
  return text(tried, digits(limits.budget_s, 3),
              " s, cut; more: get_op(…, seconds=", digits(2 * limits.budget_s, 3), ")");
}

TuneReport search(TuneReport report, const Candidates& candidates, const Args* caller,
                  const Context& context, const TuneOptions& options) {
  const ClockFn clock = options.clock;
  RaceLimits limits{budget_of(options), clock(), options.max_evaluations};
  const std::int64_t begin_ns = limits.begin_ns;
  report.source = "tuned";
  report.budget_s = limits.budget_s;
  report.seed = options.seed;
  report.strategy =
      options.strategy.empty() ? default_strategy(candidates.space()) : options.strategy;
  const auto strategy = make_strategy(report.strategy, candidates.space(), options.seed);

  const Problem problem = report.problem;
  const auto measurer = choose_measurer({*report.op, problem, options.seed, caller, context, clock},
                                        candidates.space(), options, limits, report.no_worker);
  Race race(problem, *measurer, limits, clock, options.on_event);
  const RaceInput input = candidates.race_input(*strategy);
  report.planned = candidates.space().points.size();
  race.run(input);
  report.final_rounds = race.final_rounds();
  report.stopped = race.stopped();
  report.mistrusted = measurer->mistrusted();
  report.evaluated = race.take();
  report.place = measurer->place();
  report.conditions = measurer->conditions();
  const std::string ended = measurer->ended_because();
  if (report.stopped || measurer->lost() || !ended.empty()) report.searched = kUntilEnded;
  report.elapsed_s = race.elapsed_s();

  publish(report, store_of(options));
  forget(*report.op);
  if (measurer->lost()) throw_lost(report);
  if (!ended.empty()) throw_ended(report, ended);
  if (race.winner() >= 0) {
    const Evaluated& won = report.evaluated[static_cast<std::size_t>(race.winner())];
    report.winner = won.plan->implementation;
    report.config = won.plan->config;
    const Evaluated* preset = nullptr;
    for (const Evaluated& e : report.evaluated)
      if (e.id == input.preset_id) preset = &e;
    report.why = sentence(report, won, preset) + cut_short(report, limits);
  } else if (!report.stopped) {
    throw_all_failed(report);
  }
  set_served(report, store_of(options));
  report.elapsed_s = static_cast<double>(clock() - begin_ns) * 1e-9;
  return report;
}

TuneReport measure(TuneReport report, const Candidates& candidates, const Args* caller,
                   const Context& context, const TuneOptions& options) {
  const Operator& op = *report.op;
  const Problem problem = report.problem;
  try {
    return search(std::move(report), candidates, caller, context, options);
  } catch (const std::bad_alloc&) {  // tensors, their copies, the oracle's rows or a workspace
    throw_no_memory(op, problem);
  }
}

// A key whose results have no elements: a call launches nothing, so there is nothing to measure.
TuneReport empty_report(TuneReport report, const Candidates& candidates) {
  return settled(std::move(report), "empty", &candidates.first(), candidates.default_config(),
                 "the results have no elements: nothing runs");
}

void note_known(const Merged& merged, TuneReport& report) {
  for (const Merged::Row& row : merged.rows) {
    report.newest_known = std::max(report.newest_known, row.candidate.measured_at);
    if (row.candidate.samples_ms.size() >= kFinalSamples)
      report.known_finals.insert(identity_of(row.candidate));
  }
}

void note_stale(const std::vector<const CurrentRow*>& again, const CurrentRow* winner,
                TuneReport& report) {
  if (again.empty()) return;
  report.stale_winner = identity_of(*winner->candidate);
  for (const CurrentRow* row : again)
    if (row->candidate->measured_at == winner->candidate->measured_at &&
        row->candidate->samples_ms.size() >= kFinalSamples)
      report.stale_finals[identity_of(*row->candidate)] = row->candidate->samples_ms;
}

// The report of a hit: `rows` are all that the store holds, `winner` is one of the `asked_for`.
TuneReport hit_report(TuneReport report, const std::vector<CurrentRow>& rows,
                      const CurrentRow& winner, std::size_t asked_for) {
  count(g_counters.store_hits);
  for (TuneCandidate& candidate : report.candidates)
    for (const CurrentRow& row : rows)
      if (row.implementation == candidate.implementation &&
          shown_before(row.candidate->samples_ms, candidate.stored_ms))
        candidate.stored_ms = row.candidate->samples_ms;
  report = settled(std::move(report), "store", winner.implementation, winner.config,
                   text("the fastest of ", asked_for, " measured configurations in the store"));
  const CurrentRow* best = best_row(rows);
  report.served = best->implementation;  // a narrowed question changes nothing for calls
  report.served_config = best->config;
  return report;
}

[[noreturn]] void refuse_miss(const Operator& op, const Problem& problem) {
  throw Error(
      ErrorKind::kTuning,
      text(op.schema.name,
           ": result is not in the store and DLBLAS_REQUIRE_HIT is set; expected a record for ",
           print_problem(op, problem), ", got none; run `dlblas tune` where measuring is allowed"),
      {op.schema.name, "result", "a record", "none"});
}

// True if nothing may be measured: then results of another driver or compiler are the answer.
bool must_hit(const Problem& problem, const Context& context) {
  return env_flag(EnvVar::kRequireHit) || under_capture(problem, context);
}

TuneReport open_report(const Operator& op, const Problem& problem) {
  TuneReport report;
  report.op = &op;
  report.problem = problem;
  return report;
}

Turn::Got take(Turn& turn, const Problem& problem, const Context& context,
               const TuneOptions& options) {
  if (under_capture(problem, context))
    return Turn::Got::kMine;  // nothing waits then: it is refused
  return turn.take(most_wait_s(budget_of(options)), waiting_of(options, budget_of(options)));
}

// The report when nothing was measured: what a call gets, or what a narrowed search would begin
// with.
TuneReport default_report(TuneReport report, const Candidates& candidates, const CurrentRow* winner,
                          Turn::Got got, const Turn& turn) {
  const Explanation now = explain(*report.op, report.problem);
  Point served{&candidates.first(), candidates.default_config()};
  if (now.plan) served = {now.plan->implementation, now.plan->config};
  const bool inside = candidates.is_inside(*served.implementation, served.config);
  Point own = inside ? served : candidates.stand_in();
  if (winner) own = {winner->implementation, winner->config};
  report =
      settled(std::move(report), "default", own.implementation, own.config, words_of(got, turn));
  report.served = served.implementation;
  report.served_config = served.config;
  report.stopped = got == Turn::Got::kStopped;
  report.waited_s = turn.waited_s();
  return report;
}

}  // namespace

TuneReport tune(const Operator& op, const Problem& problem, const Args* caller,
                const Context& context, const TuneOptions& options) {
  const PlainFloats plain;  // oracle, records
  TuneReport report = open_report(op, problem);
  Candidates candidates(op, problem, options, report.candidates);
  if (!has_elements(op, problem)) return empty_report(std::move(report), candidates);
  const Fields key = store_key(op, problem);
  Store& store = store_of(options);
  report.searched = narrowing_of(options);
  Asked asked{options.strategy, options.seed, budget_of(options), report.searched,
              newest_in(*store.load(key))};
  if (asked.strategy.empty()) asked.strategy = default_strategy(candidates.space());
  Turn turn(store, key);
  const Turn::Got got = take(turn, problem, context, options);
  const auto merged = store.load(key);
  const std::vector<CurrentRow> rows = current_rows(op, problem, *merged);
  const std::vector<CurrentRow> asked_for = candidates.inside(rows);
  const CurrentRow *best = best_row(rows), *winner = best_row(asked_for);
  if (got == Turn::Got::kNested || got == Turn::Got::kStopped)
    return default_report(std::move(report), candidates, winner, got, turn);
  report.waited_s = turn.waited_s();
  if (report.waited_s > 0 && winner && answers(*merged, asked)) {
    forget(op);
    return hit_report(std::move(report), rows, *winner, asked_for.size());
  }
  note_known(*merged, report);
  const std::vector<const CurrentRow*> again = stale_rows(rows, surroundings(problem));
  note_stale(again, best, report);
  candidates.add_anchors(best, winner, again);
  return measure(std::move(report), candidates, caller, context, options);
}

TuneReport get_op(const Operator& op, const Problem& problem, const Args* caller,
                  const Context& context, const TuneOptions& options) {
  if (options.force) return tune(op, problem, caller, context, options);
  const Fields key = store_key(op, problem);
  Store& store = store_of(options);
  Turn turn(store, key);
  for (bool mine = false;;) {
    TuneReport report = open_report(op, problem);
    Candidates candidates(op, problem, options, report.candidates);
    if (!has_elements(op, problem)) return empty_report(std::move(report), candidates);
    const auto merged = store.load(key);
    note_known(*merged, report);
    const std::vector<CurrentRow> rows = current_rows(op, problem, *merged);
    const CurrentRow* best = best_row(rows);
    const std::vector<CurrentRow> asked_for = candidates.inside(rows);
    const CurrentRow* winner = best_row(asked_for);
    const std::size_t all = candidates.space().points.size();
    const bool complete = winner && candidates.keep_unknown(*merged);
    const std::vector<const CurrentRow*> again = stale_rows(asked_for, surroundings(problem));
    report.waited_s = turn.waited_s();
    // A search cut short by its budget continues if this one has at least twice as much.
    const Extent extent = extent_of(asked_for, narrowing_of(options));
    const bool goes_on =
        complete && extent.cut && budget_of(options) >= kMuchMore * extent.budget_s;
    if (complete && ((again.empty() && !goes_on) || must_hit(problem, context))) {
      if (report.waited_s > 0) forget(op);  // a process that waited has chosen before
      return hit_report(std::move(report), rows, *winner, asked_for.size());
    }
    if (!mine) {
      count(g_counters.store_misses);
      if (env_flag(EnvVar::kRequireHit)) refuse_miss(op, problem);
      const Turn::Got got = take(turn, problem, context, options);
      if (got != Turn::Got::kMine)
        return default_report(std::move(report), candidates, winner, got, turn);
      mine = true;
      if (store.load(key) != merged) continue;  // of another search, which ended meanwhile
    }
    if (complete && !goes_on) candidates.drop_all();
    report.searched =
        candidates.space().points.size() < all ? "what was missing" : narrowing_of(options);
    report.waited_s = turn.waited_s();
    note_stale(again, winner, report);
    candidates.add_anchors(best, winner, again);
    return measure(std::move(report), candidates, caller, context, options);
  }
}

}  // namespace dlblas
