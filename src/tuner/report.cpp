// A run of the tuner as JSON, for people and scripts; see tune.hpp. Counters are the process's.
#include <algorithm>
#include <span>

#include "core/counters.hpp"
#include "core/json.hpp"
#include "store/ranking.hpp"
#include "tuner/tune.hpp"

namespace dlblas {
namespace {

void write_choice(JsonWriter& w, std::string_view key, const Implementation* impl,
                  const Config& config) {
  w.key(key);
  if (!impl) return void(w.null());
  w.open_object().field("implementation", impl->name);
  w.field("config", impl->table().print(config)).close_object();
}

void write_candidates(JsonWriter& w, const TuneReport& report) {
  w.key("candidates").open_array();
  for (const TuneCandidate& c : report.candidates) {
    int measured = 0, failed = 0;
    std::span<const double> best = c.stored_ms;
    for (const Evaluated& e : report.evaluated) {
      if (e.plan->implementation != c.implementation) continue;
      ++(e.failure == Failure::kNone ? measured : failed);
      if (e.failure == Failure::kNone && shown_before(e.samples_ms, best)) best = e.samples_ms;
    }
    w.open_object().field("implementation", c.implementation->name);
    w.field("takes_part", c.refused.empty()).field("reason", c.refused).field("configs", c.configs);
    w.field("measured", measured).field("failed", failed).key("best_ms");
    best.empty() ? w.null() : w.value(score_ms(best));
    w.field("samples", best.size()).close_object();
  }
  w.close_array();
}

void write_evaluated(JsonWriter& w, const TuneReport& report) {
  w.key("evaluated").open_array();
  for (const Evaluated& e : report.evaluated) {
    const Implementation& impl = *e.plan->implementation;
    w.open_object()
        .field("implementation", impl.name)
        .field("config", impl.table().print(e.plan->config));
    if (e.failure == Failure::kNone) {
      w.field("ms", score_ms(e.samples_ms)).field("sigma_ms", spread_ms(e.samples_ms));
      w.key("samples_ms").open_array();
      for (const double ms : e.samples_ms) w.value(ms);
      w.close_array();
    } else {
      w.field("failure", name_of(e.failure)).field("note", e.note);
    }
    w.field("error", e.error).close_object();
  }
  w.close_array();
}

}  // namespace

std::string print_json(const TuneReport& report) {
  const auto failures =
      std::count_if(report.evaluated.begin(), report.evaluated.end(),
                    [](const Evaluated& e) { return e.failure != Failure::kNone; });
  JsonWriter w;
  w.open_object().field("op", report.op->schema.name);
  w.field("problem", print_problem(*report.op, report.problem)).key("key").open_object();
  for (const Record::Field& field : store_key(*report.op, report.problem))
    w.field(field.name, field.value);
  w.close_object().field("source", report.source);
  write_choice(w, "winner", report.winner, report.config);
  w.field("why", report.why);
  write_choice(w, "served", report.served, report.served_config);
  write_candidates(w, report);
  write_evaluated(w, report);
  w.field("failures", failures).field("strategy", report.strategy).field("seed", report.seed);
  if (report.conditions.empty()) w.field("cache", "");  // nothing was measured
  for (const Record::Field& field : report.conditions) w.field(field.name, field.value);
  w.field("measured_in", report.place).field("no_worker", report.no_worker);
  w.field("final_rounds", report.final_rounds).field("planned", report.planned);
  w.field("stopped", report.stopped).field("mistrusted", report.mistrusted);
  w.field("waited_s", report.waited_s);
  w.field("budget_s", report.budget_s).field("elapsed_s", report.elapsed_s);
  w.key("counters").open_object();
  w.field("measured", g_counters.measured.load()).field("compiled", g_counters.compiled.load());
  w.field("prepared", g_counters.prepared.load()).close_object();
  return w.close_object().text();
}

}  // namespace dlblas
