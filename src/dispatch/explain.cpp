// What would run for a Problem, and why: every candidate with yes or its reason, its configuration,
// what is known about its speed, and one sentence on the winner. Runs nothing. The "no
// implementation" error prints the same table. Read next: dispatch/decide.cpp, which decides what
// this explains.
#include <algorithm>

#include "core/absent_device.hpp"
#include "core/digits.hpp"
#include "core/error.hpp"
#include "core/harmless.hpp"
#include "core/json.hpp"
#include "cuda/cuda.hpp"
#include "dispatch/decide.hpp"
#include "dispatch/extent.hpp"
#include "dispatch/nested.hpp"
#include "dispatch/ruled.hpp"
#include "dispatch/stale.hpp"
#include "store/ranking.hpp"

namespace dlblas {
namespace {

// One unit for a whole table: 0.08127 µs, 4.055 µs, 48213 µs.
// A time from the race, with fewer samples than a final takes, is marked: "~7500 µs, 1 sample".
std::string measured(const CandidateRow& row) {
  if (row.best_ms < 0 || row.samples >= kFinalSamples) return microseconds(row.best_ms);
  return text("~", microseconds(row.best_ms), ", ", row.samples,
              row.samples == 1 ? " sample" : " samples");
}

// The width of UTF-8 text in characters.
std::size_t width_of(std::string_view s) {
  return static_cast<std::size_t>(std::count_if(
      s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string why_sentence(const Explanation& e) {
  const Plan& plan = *e.plan;
  const std::string name = plan.implementation->name;
  switch (plan.why) {
    case Why::kPinned:
      if (pinned_in_process(*e.op, e.problem)) return text(name, " is pinned in this process");
      return text(name, " is pinned for good, by `dlblas cache pin`, for this ",
                  kept_choice(*e.op, e.problem).of_problem ? "problem" : "operator");
    case Why::kStore:
      if (e.measured == 1)
        return text(name, " has the one time that the results store keeps of this key");
      return text(name, " won; the results store keeps ", e.measured,
                  " measured configurations of this key");
    case Why::kShipped:
      return text(name, " is what the shipped table holds for this key");
    case Why::kModel:
      return text(name, " has the smallest predicted time; nothing is measured for this key yet");
    case Why::kHeuristic:
      if (plan.implementation->flags.oracle)
        return "no fast built-in implementation supports this call: the reference runs";
      if (plan.implementation->flags.user)
        return text(name,
                    " is registered from outside and not measured yet; nothing else supports "
                    "this call");
      return text(name,
                  " is the first in the operator's order that supports this call; nothing is "
                  "measured for this key yet");
  }
  return {};
}

// A clause for a stored choice whose search ended before covering its space.
std::string cut_short(const Explanation& e) {
  if (e.plan->why != Why::kStore) return {};
  const auto merged = Store::process().load(store_key(*e.op, e.problem));
  const Extent extent = extent_of(current_rows(*e.op, e.problem, *merged));
  if (!extent.cut) return {};
  return text("; tried: ", extent.tried, " of ", extent.planned, " configurations, ",
              digits(extent.budget_s, 3),
              " s, cut; more: get_op(…, seconds=", digits(2 * extent.budget_s, 3), ")");
}

// A clause for a stored choice that was measured under another driver or compiler.
std::string aged(const Explanation& e) {
  if (e.plan->why != Why::kStore) return {};
  const auto merged = Store::process().load(store_key(*e.op, e.problem));
  const std::vector<CurrentRow> rows = current_rows(*e.op, e.problem, *merged);
  const CurrentRow* best = best_row(rows);
  const std::string changed = best ? changed_since(*best, surroundings(e.problem)) : std::string();
  if (changed.empty()) return {};
  return text("; it was measured under ", changed, ": the next get_op or tune measures it again");
}

const Operator& operator_of(const Plan& plan) { return Registry::process().by_id(plan.problem.op); }

std::string print_part(const Plan& part) {
  const Operator& op = operator_of(part);
  const Implementation& impl = *part.implementation;
  return text("  part ", op.schema.name, " ", print_problem(op, part.problem), ": ", impl.name, " ",
              impl.table().print(part.config), " (", name_of(part.why), ")\n");
}

// Left-aligned columns, two spaces between.
std::string print_columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width;
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c == width.size()) width.push_back(0);
      width[c] = std::max(width[c], width_of(row[c]));
    }
  std::string s;
  for (const auto& row : rows) {
    std::string line = "  ";
    for (std::size_t c = 0; c < row.size(); ++c) {
      line += row[c];
      line.append(width[c] - width_of(row[c]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    s += line + "\n";
  }
  return s;
}

}  // namespace

namespace {
// Fills in what is known about a configuration: its time, or its failure; and the model's estimate.
void tell_of(CandidateRow& row, const Query& q, const Config& config,
             const std::vector<CurrentRow>& rows, const Merged& merged) {
  row.config = config;
  row.best_ms = row.estimate_ms = -1;
  row.samples = 0;
  row.failure.clear(), row.note.clear();
  if (q.self.estimate) row.estimate_ms = q.self.estimate(q, config);
  for (const CurrentRow& known : rows)
    if (known.implementation == &q.self && known.config == config) {
      row.best_ms = score_ms(known.candidate->samples_ms);
      row.samples = static_cast<int>(known.candidate->samples_ms.size());
      return;
    }
  if (const Record::Candidate* failed = known_failure(merged, q, config))
    row.failure = failed->failure.empty() ? "wrong_result" : failed->failure,
    row.note = failed->note;
}

const CurrentRow* row_to_show(const Implementation& impl, const std::vector<CurrentRow>& rows) {
  const CurrentRow* shown = nullptr;
  for (const CurrentRow& row : rows)
    if (row.implementation == &impl &&
        (!shown || shown_before(row.candidate->samples_ms, shown->candidate->samples_ms)))
      shown = &row;
  return shown;
}
}  // namespace

Explanation explain_candidates(const Operator& op, const Problem& problem) {
  const DeviceInfo& device = device_info(problem.device());
  const auto merged = Store::process().load(store_key(op, problem));
  const std::vector<CurrentRow> rows = current_rows(op, problem, *merged);
  Explanation e{&op, problem, {}, 0, nullptr, {}, {}};
  for (const Implementation* impl : op.candidates()) {
    const Query q{problem, device, *impl};
    CandidateRow row{impl, check_choice(q), {}, -1, -1, {}, {}, false};
    if (const CurrentRow* shown = row_to_show(*impl, rows)) {
      tell_of(row, q, shown->config, rows, *merged);
    } else if (row.support) {
      const std::optional<Config> allowed = first_allowed(op, q);
      tell_of(row, q, allowed ? *allowed : default_config(q), rows, *merged);
      if (!allowed) row.failure = "forbidden";
    }
    e.candidates.push_back(std::move(row));
  }
  e.measured = rows.size();
  return e;
}

Explanation explain(const Operator& op, const Problem& problem) {
  Explanation e = explain_candidates(op, problem);
  try {
    e.plan = &select(op, problem);
    const Implementation& chosen = *e.plan->implementation;
    for (DecidedPart& part :
         decide_parts({problem, device_info(problem.device()), chosen}, e.plan->config))
      e.parts.push_back(std::move(part.plan));
  } catch (const Error& error) {  // what a call would say is the explanation
    e.plan = nullptr;
    e.why = error.what();
    return e;
  }
  for (CandidateRow& row : e.candidates) {
    row.chosen = row.implementation == e.plan->implementation;
    if (!row.chosen) continue;
    if (row.config != e.plan->config) {
      const auto merged = Store::process().load(store_key(op, problem));
      tell_of(row, {problem, device_info(problem.device()), *row.implementation}, e.plan->config,
              current_rows(op, problem, *merged), *merged);
    }
    row.support = Support::yes();  // a pin may choose what nothing else would
  }
  e.why = why_sentence(e) + cut_short(e) + aged(e);
  if (!pinned_in_process(op, problem)) e.why += kept_choice(op, problem).passed_over;
  return e;
}

namespace {
std::string headline(const Explanation& e) {
  return text(e.op->schema.name, " ", print_problem(*e.op, e.problem), "\n");
}

// A call's error ends with this very table, which is printed above it already.
std::string failure_beside_table(const Explanation& e) {
  const std::size_t at = e.why.find("\n" + headline(e));
  if (at == std::string::npos) return e.why;
  const std::string before = e.why.substr(0, at);
  return before.ends_with(", got") ? before + " none" : before;
}
}  // namespace

std::string print_table(const Explanation& e, bool fold) {
  std::vector<std::vector<std::string>> rows{
      {"", "implementation", "supports", "measured", "predicted", "configuration"}};
  const bool for_absent = is_absent(e.problem.device());
  fold = fold && (for_absent || e.problem.device_type == DeviceType::kCpu) &&
         cuda::device_count() == 0;
  std::size_t folded = 0;
  for (const CandidateRow& row : e.candidates) {
    const bool yes = static_cast<bool>(row.support);
    if (fold && !yes && row.implementation->backend != e.problem.device_type) {
      ++folded;
      continue;
    }
    rows.push_back({row.chosen ? ">" : "", row.implementation->name,
                    yes ? "yes" : text("no: ", harmless(row.support.text(e.op->schema))),
                    !yes                  ? ""
                    : row.failure.empty() ? measured(row)
                                          : "failed: " + harmless(row.failure),
                    yes ? microseconds(row.estimate_ms) : "",
                    yes ? row.implementation->table().print(row.config) : ""});
  }
  std::string s = headline(e) + print_columns(rows);
  if (folded > 0)
    s += text("     ", folded, for_absent ? " for the CPU" : " for GPUs", "; -v shows them\n");
  if (for_absent) {
    const DeviceInfo& device = device_info(e.problem.device());
    s += text("  for sm_", device.arch, device.arch >= 90 ? "a" : "", ", a typical ", device.model,
              "\n");
  }
  for (const CandidateRow& row : e.candidates)
    if (row.support && !row.failure.empty() && !row.note.empty())
      s += text("  ", row.implementation->name, " failed: ", harmless(row.failure), ": ",
                harmless(row.note), "\n");
  if (e.plan)
    s += text("  ", harmless(e.why, kMaxMessage), " (", name_of(e.plan->why), ")\n");
  else if (!e.why.empty())
    s += text("  a call fails: ", harmless_lines(failure_beside_table(e)), "\n");
  for (const auto& part : e.parts) s += print_part(*part);
  return s;
}

namespace {
void print_parts(JsonWriter& w, const Explanation& e) {
  w.key("parts").open_array();
  for (const auto& part : e.parts) {
    const Operator& op = operator_of(*part);
    const Implementation& impl = *part->implementation;
    w.open_object().field("op", op.schema.name).field("problem", print_problem(op, part->problem));
    w.field("implementation", impl.name).field("config", impl.table().print(part->config));
    w.field("source", name_of(part->why)).close_object();
  }
  w.close_array();
}
}  // namespace

std::string print_json(const Explanation& e) {
  JsonWriter w;
  w.open_object().field("op", e.op->schema.name).field("problem", print_problem(*e.op, e.problem));
  w.key("candidates").open_array();
  for (const CandidateRow& row : e.candidates) {
    const bool yes = static_cast<bool>(row.support);
    w.open_object().field("implementation", row.implementation->name).field("supports", yes);
    w.field("reason", yes ? std::string() : row.support.text(e.op->schema))
        .field("chosen", row.chosen);
    if (yes) w.field("config", row.implementation->table().print(row.config));
    if (!row.failure.empty()) w.field("failure", row.failure).field("note", row.note);
    if (row.best_ms >= 0) w.field("measured_ms", row.best_ms).field("samples", row.samples);
    if (row.estimate_ms >= 0) w.field("predicted_ms", row.estimate_ms);
    w.close_object();
  }
  w.close_array();
  if (e.plan) {
    w.field("implementation", e.plan->implementation->name);
    w.field("config", e.plan->implementation->table().print(e.plan->config));
    w.field("source", name_of(e.plan->why)).field("why", e.why);
    if (!e.parts.empty()) print_parts(w, e);
  } else {
    w.field("error", e.why);
  }
  w.close_object();
  return w.text();
}

}  // namespace dlblas
