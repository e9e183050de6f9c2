// The record of a run; see publish.hpp.
#include "tuner/publish.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/digits.hpp"
#include "core/error.hpp"
#include "core/harmless.hpp"
#include "dlblas/version.h"
#include "store/ranking.hpp"

namespace dlblas {
namespace {

constexpr std::size_t kMaxKept = 32;
// A short budget leaves a candidate less time than this, and a timeout then proves nothing: its
// first run may load a library or a compiler. A candidate ended sooner is tried again by the next
// search.
constexpr double kFairSeconds = 1;

bool says_nothing(const Evaluated& e) {
  if (e.unsure) return true;
  return (e.failure == Failure::kTimeout || e.failure == Failure::kCompileTimeout) &&
         e.limit_s > 0 && e.limit_s < kFairSeconds;
}

bool is_default(const TuneReport& report, const Evaluated& e) {
  const DeviceInfo& device = device_info(report.problem.device());
  return e.plan->config == default_config({report.problem, device, *e.plan->implementation});
}

std::string made_of(const Plan& plan) {
  const Query q{plan.problem, device_info(plan.problem.device()), *plan.implementation};
  return Identity(q).of(plan.config);
}

Record::Candidate candidate_of(const TuneReport& report, const Evaluated& e, std::int64_t now) {
  const Implementation& impl = *e.plan->implementation;
  Record::Candidate c;
  c.implementation = impl.name;
  c.source_hash = made_of(*e.plan);
  c.config = impl.table().print(e.plan->config);
  c.samples_ms = e.samples_ms;
  c.failure = name_of(e.failure);
  if (e.failure != Failure::kNone) c.note = harmless(e.note);
  c.error = std::isfinite(e.error) ? e.error : 1e300;
  c.is_default = is_default(report, e);
  c.measured_at = now;
  return c;
}

// The fastest, the defaults, the best of each implementation (which would otherwise count as never
// measured), and some failures: a record stays small whatever was searched.
std::vector<const Evaluated*> kept(const TuneReport& report) {
  std::vector<const Evaluated*> timed, failed, result;
  for (const Evaluated& e : report.evaluated)
    (e.failure == Failure::kNone ? timed : failed).push_back(&e);
  // Finalists first: their samples are the ones that decide.
  std::stable_sort(timed.begin(), timed.end(), [](const Evaluated* a, const Evaluated* b) {
    return shown_before(a->samples_ms, b->samples_ms);
  });
  for (std::vector<const Evaluated*>* group : {&timed, &failed}) {
    std::set<const Implementation*> seen;
    for (std::size_t i = 0; i < group->size(); ++i) {
      const Evaluated& e = *(*group)[i];
      const bool first = seen.insert(e.plan->implementation).second;
      if (i < kMaxKept || first || is_default(report, e)) result.push_back(&e);
    }
  }
  return result;
}

std::string joined(std::string_view implementation, std::string_view source_hash,
                   std::string_view config) {
  return text(implementation, " ", source_hash, " ", config);
}

std::string identity_of(const Evaluated& e) {
  const Implementation& impl = *e.plan->implementation;
  return joined(impl.name, made_of(*e.plan), impl.table().print(e.plan->config));
}

}  // namespace

std::string identity_of(const Record::Candidate& c) {
  return joined(c.implementation, c.source_hash, c.config);
}

void publish(const TuneReport& report, Store& store) {
  Record record;
  record.key = store_key(*report.op, report.problem);
  const std::int64_t now = stamp_after(report.newest_known);
  const auto& all = report.evaluated;
  const bool seen_again = std::any_of(all.begin(), all.end(), [&](const Evaluated& e) {
    return identity_of(e) == report.stale_winner;
  });
  for (const Evaluated* e : kept(report)) {
    if (says_nothing(*e)) continue;
    Record::Candidate c = candidate_of(report, *e, now);
    const std::string identity = identity_of(c);
    // Without a final, what an earlier final decided stays. If that was under another driver or
    // compiler, its times are taken over, provided that its winner was measured again: otherwise
    // every process would repeat measurements that none has the time to decide.
    if (report.final_rounds < kFinalSamples && e->failure == Failure::kNone &&
        report.known_finals.count(identity) > 0) {
      const auto times = report.stale_finals.find(identity);
      if (!seen_again || times == report.stale_finals.end()) continue;
      c.samples_ms = times->second;
    }
    record.candidates.push_back(std::move(c));
  }
  if (record.candidates.empty()) return;
  record.env = {{"library", DLBLAS_VERSION},
                {"compiler", __VERSION__},
                {"strategy", report.strategy},
                {"seed", std::to_string(report.seed)},
                {"budget_s", digits(report.stopped ? report.elapsed_s : report.budget_s, 6)},
                {"rounds", std::to_string(report.final_rounds)}};
  record.env.push_back({"planned", std::to_string(report.planned)});
  record.env.push_back({"tried", std::to_string(report.evaluated.size())});
  if (!report.searched.empty()) record.env.push_back({"searched", report.searched});
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
           harmless(last.note), ")"),
      {op.schema.name, "call", "one right result", std::string(name_of(last.failure))});
}

void throw_lost(const TuneReport& report) {
  const auto broke = std::find_if(report.evaluated.begin(), report.evaluated.end(),
                                  [](const Evaluated& e) { return e.broke_device; });
  const Evaluated& last = broke != report.evaluated.end() ? *broke : report.evaluated.back();
  const std::string candidate = text(last.plan->implementation->name, " ",
                                     last.plan->implementation->table().print(last.plan->config));
  throw Error(ErrorKind::kTuning,
              text(report.op->schema.name, ": CUDA context of this process is lost; expected a ",
                   "kernel that runs, got ", harmless(last.note), " from ", candidate,
                   "; start a new process: the failure is recorded and not tried again"),
              {report.op->schema.name, "context", "a kernel that runs", last.note});
}

void throw_ended(const TuneReport& report, const std::string& why) {
  throw Error(ErrorKind::kTuning,
              text(report.op->schema.name,
                   ": worker cannot be started again; expected a process that measures, got: ",
                   harmless(why), "; what was measured is kept: tune again"),
              {report.op->schema.name, "worker", "a process that measures", why});
}

}  // namespace dlblas
