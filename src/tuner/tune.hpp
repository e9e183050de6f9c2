// Tuning of one key, start to end: what is known, what has to be measured, the race, the record.
// In: operator, Problem, context, options. Out: TuneReport; the winner is in the store, and
// operator calls serve it from then on. `get_op` measures only what the store does not know yet.
// Flow: dlblas_tune, dlblas_get_op > [tune] > inputs > race > measure.  Read next: docs/tuning.md.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/dispatch.hpp"
#include "store/store.hpp"
#include "tuner/measure.hpp"
#include "tuner/race.hpp"
#include "tuner/worker_link.hpp"

namespace dlblas {

/// Where candidates run. kAuto: in a worker, if one is available and the budget is worth its start;
/// users' own always, whatever the budget; those that only this process has, here.
enum class MeasureIn : std::uint8_t { kAuto, kWorker, kProcess };

/// "Knob `knob` of `implementation` (empty: of any that has it) takes only these values."
struct KnobRestriction {
  std::string implementation, knob;
  std::vector<std::string> values;  // numbers, or the knob's labels
};

struct TuneOptions {
  double seconds = 0;    // <= 0: DLBLAS_TUNE_SECONDS, default 10
  std::string strategy;  // empty: by the size of the space
  std::uint64_t seed = 0;
  int max_evaluations = 0;
  bool force = false;                        // get_op: measure every candidate again
  std::vector<std::string> implementations;  // empty: all that support the problem
  std::vector<KnobRestriction> knobs;
  std::function<bool(std::string_view implementation, std::string_view config)>
      where;  // true: keep
  Race::OnEvent on_event;
  ClockFn clock = steady_nanoseconds;
  Store* store = nullptr;  // null: the user's
  MeasureIn measure_in = MeasureIn::kAuto;
  worker::Start start_worker;   // empty: there is none
  bool worker_imports = false;  // a user's modules, before it serves
};
/// From the C ABI's structure (null: defaults).
TuneOptions options_from(const dlblas_tune_options* options);

/// One implementation of the operator, as tuning saw it.
struct TuneCandidate {
  const Implementation* implementation = nullptr;
  std::string refused;  // why it does not take part; empty: it does
  int configs = 0;      // valid ones, after the user's narrowing
  std::vector<double> stored_ms =
      {};  // the samples that are shown, of a current record; empty: none
};

struct TuneReport {
  const Operator* op = nullptr;
  Problem problem;
  std::string source;  // "store": a hit; "tuned"; "empty": the results have no elements; "default":
                       // another search of the key is at work, and this one measured nothing
  const Implementation* winner = nullptr;  // of this run; null when every configuration failed
  Config config;
  std::string why;
  const Implementation* served =
      nullptr;  // what calls get from now on: differs after a narrowed run
  Config served_config;
  std::vector<TuneCandidate> candidates;
  std::vector<Evaluated> evaluated;
  std::string strategy;
  std::string place;      // "worker", "process"; empty: nothing was measured
  std::string no_worker;  // why this process measured; empty: a worker did, or nothing was measured
  Fields conditions;      // how it was measured: "cache" first ("warm", "rotated", "cold"), …
  std::uint64_t seed = 0;
  std::int64_t newest_known = 0;       // when the newest stored sample says it was taken
  std::set<std::string> known_finals;  // identities of stored rows that come from a final
  /// The finalists of the run that decided, if its winner was measured under another driver or
  /// compiler: a run too short for a final checks that they still run, and keeps their times.
  std::map<std::string, std::vector<double>> stale_finals;
  std::string stale_winner;  // identity
  std::string searched;      // for the record: what was left out; empty: nothing
  double waited_s = 0;       // for another search of the key
  double budget_s = 0, elapsed_s = 0;
  std::size_t planned = 0;  // configurations; fewer in `evaluated`: the search was cut
  int final_rounds = 0;
  bool stopped = false, mistrusted = false;
};
std::string print_json(const TuneReport& report);

/// Measures every candidate; if another search of the key was running, and its result answers this
/// request, that is the answer. `caller` (may be null) lends index-valued tensors and runtime
/// scalars only. Throws Error(kUnsupported) when nothing supports the problem, Error(kArgument) for
/// options that leave nothing or name what does not exist, Error(kTuning) when every configuration
/// fails, and when a worker was requested and none is available.
TuneReport tune(const Operator& op, const Problem& problem, const Args* caller,
                const Context& context, const TuneOptions& options);

/// A hit, measuring nothing, when the store holds a current sample (or failure) of every supporting
/// candidate; else measures the missing candidates, and with them the default and the incumbent
/// again. Waits for another search of the key, and takes the default if that takes too long. A miss
/// under DLBLAS_REQUIRE_HIT is an Error(kTuning).
TuneReport get_op(const Operator& op, const Problem& problem, const Args* caller,
                  const Context& context, const TuneOptions& options);

}  // namespace dlblas
