// The record of a run; see publish.hpp.
#include "tuner/publish.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "dlblas/version.h"
#include "store/ranking.hpp"

namespace dlblas {
namespace {

constexpr std::size_t kMaxKept = 32;
// A short budget leaves less to a candidate, and says nothing of it: its first run may load a
// library or a compiler. Whoever was ended sooner is tried again by the next search.
constexpr double kFairSeconds = 1;

bool was_hurried(const Evaluated& e) {
  return (e.failure == Failure::kTimeout || e.failure == Failure::kCompileTimeout) &&
         e.limit_s > 0 && e.limit_s < kFairSeconds;
}

bool is_default(const TuneReport& report, const Evaluated& e) {
  const Implementation& impl = *e.plan->implementation;
  return e.plan->config ==
         impl.default_config(report.problem, device_info(report.problem.device()));
}

Record::Candidate candidate_of(const TuneReport& report, const Evaluated& e, std::int64_t now) {
  const Implementation& impl = *e.plan->implementation;
  Record::Candidate c;
  c.implementation = impl.name;
  c.source_hash = impl.identity();
  c.config = impl.table().print(e.plan->config);
  c.samples_ms = e.samples_ms;
  c.failure = name_of(e.failure);
  c.error = std::isfinite(e.error) ? e.error : 1e300;
  c.is_default = is_default(report, e);
  c.measured_at = now;
  return c;
}

// The fastest, the defaults and some failures: a record stays small whatever was searched.
std::vector<const Evaluated*> kept(const TuneReport& report) {
  std::vector<const Evaluated*> timed, failed, result;
  for (const Evaluated& e : report.evaluated)
    (e.failure == Failure::kNone ? timed : failed).push_back(&e);
  // Finalists first: their samples are the ones that decide.
  std::stable_sort(timed.begin(), timed.end(), [](const Evaluated* a, const Evaluated* b) {
    const bool a_final = a->samples_ms.size() >= kFinalSamples,
               b_final = b->samples_ms.size() >= kFinalSamples;
    if (a_final != b_final) return a_final;
    return score_ms(a->samples_ms) < score_ms(b->samples_ms);
  });
  for (std::vector<const Evaluated*>* group : {&timed, &failed})
    for (std::size_t i = 0; i < group->size(); ++i)
      if (i < kMaxKept || is_default(report, *(*group)[i])) result.push_back((*group)[i]);
  return result;
}

std::string number(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.6g", value);
  return digits;
}

}  // namespace

std::string identity_of(const Record::Candidate& c) {
  return text(c.implementation, " ", c.source_hash, " ", c.config);
}

void publish(const TuneReport& report, Store& store) {
  Record record;
  record.key = store_key(*report.op, report.problem);
  const std::int64_t now = stamp_after(report.newest_known);
  for (const Evaluated* e : kept(report)) {
    Record::Candidate c = candidate_of(report, *e, now);
    const bool decided = report.final_rounds < kFinalSamples && e->failure == Failure::kNone &&
                         report.known_finals.count(identity_of(c)) > 0;
    if (!decided && !was_hurried(*e)) record.candidates.push_back(std::move(c));
  }
  if (record.candidates.empty()) return;
  record.env = {
      {"library", DLBLAS_VERSION},           {"compiler", __VERSION__},
      {"strategy", report.strategy},         {"seed", std::to_string(report.seed)},
      {"budget_s", number(report.budget_s)}, {"rounds", std::to_string(report.final_rounds)}};
  record.env.insert(record.env.end(), report.conditions.begin(), report.conditions.end());
  sort_fields(record.env);
  store.publish(std::move(record));
}

void throw_all_failed(const TuneReport& report) {
  const Operator& op = *report.op;
  const Evaluated& last = report.evaluated.back();
  const Implementation& impl = *last.plan->implementation;
  throw Error(
      ErrorKind::kTuning,
      text(op.schema.name, ": call has no working candidate; expected one right result from ",
           report.evaluated.size(), " configurations, got none for ",
           print_problem(op, report.problem), "; the last, ", impl.name, " ",
           impl.table().print(last.plan->config), ", failed: ", name_of(last.failure), " (",
           last.note, ")"),
      {op.schema.name, "call", "one right result", std::string(name_of(last.failure))});
}

void throw_lost(const TuneReport& report) {
  const auto broke = std::find_if(report.evaluated.begin(), report.evaluated.end(),
                                  [](const Evaluated& e) { return e.broke_device; });
  const Evaluated& last = broke != report.evaluated.end() ? *broke : report.evaluated.back();
  const std::string who = text(last.plan->implementation->name, " ",
                               last.plan->implementation->table().print(last.plan->config));
  throw Error(ErrorKind::kTuning,
              text(report.op->schema.name, ": CUDA context of this process is lost; expected a ",
                   "kernel that runs, got ", last.note, " from ", who,
                   "; start a new process: the failure is recorded and not tried again"),
              {report.op->schema.name, "context", "a kernel that runs", last.note});
}

void throw_ended(const TuneReport& report, const std::string& why) {
  throw Error(ErrorKind::kTuning,
              text(report.op->schema.name,
                   ": worker cannot be started again; expected a process that measures, got: ", why,
                   "; what was measured is kept: tune again"),
              {report.op->schema.name, "worker", "a process that measures", why});
}

}  // namespace dlblas
