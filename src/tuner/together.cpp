// See together.hpp.
#include "tuner/together.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/digits.hpp"
#include "core/error.hpp"
#include "store/sha256.hpp"

namespace dlblas {
namespace {

constexpr const char* kByAFunction = "by a function";  // which no record can name

std::string value_of(const Fields& env, std::string_view name) {
  for (const Record::Field& field : env)
    if (field.name == name) return field.value;
  return {};
}

}  // namespace

double most_wait_s(double budget_s) { return 1.25 * budget_s + 2; }

std::function<bool()> waiting_of(const TuneOptions& options, double budget_s) {
  if (!options.on_event) return {};
  return [on_event = options.on_event, begin = steady_nanoseconds(), budget_s] {
    dlblas_event event{};
    event.size = sizeof event;
    event.kind = DLBLAS_EVENT_WAITING;
    event.implementation = event.config = event.note = event.best = "";
    event.milliseconds = event.best_ms = -1;
    event.elapsed_s = static_cast<double>(steady_nanoseconds() - begin) * 1e-9;
    event.budget_s = budget_s;
    return on_event(event);
  };
}

std::string words_of(Turn::Got got, const Turn& turn) {
  if (got == Turn::Got::kNested)
    return "a search of this key waits for this call: nothing was measured in it";
  return text("another search of this key was at work for ", digits(turn.waited_s(), 3), " s",
              got == Turn::Got::kStopped ? ", until this one was stopped" : " and longer",
              ": nothing was measured");
}

std::string narrowing_of(const TuneOptions& options) {
  if (options.where) return kByAFunction;
  std::string words;
  if (options.max_evaluations > 0) words += text(" most ", options.max_evaluations);
  std::vector<std::string> names = options.implementations;
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) words += text(" of ", name);
  for (const KnobRestriction& knob : options.knobs) {
    words += text(" with ", knob.implementation, " ", knob.knob);
    for (const std::string& value : knob.values) words += text(" ", value);
  }
  constexpr std::size_t kDigits = 16;
  return words.empty() ? words : sha256_hex(words).substr(0, kDigits);
}

std::int64_t newest_in(const Merged& merged) {
  std::int64_t newest = 0;
  for (const Merged::Row& row : merged.rows) newest = std::max(newest, row.candidate.measured_at);
  return newest;
}

bool answers(const Merged& merged, const Asked& asked) {
  constexpr double kAsPrinted = 1 - 1e-5;  // six digits
  if (asked.searched == kByAFunction) return false;
  return std::any_of(merged.rows.begin(), merged.rows.end(), [&](const Merged::Row& row) {
    const Fields& env = *row.env;
    return row.candidate.measured_at > asked.newest &&
           value_of(env, "strategy") == asked.strategy &&
           value_of(env, "seed") == std::to_string(asked.seed) &&
           value_of(env, "searched") == asked.searched &&
           number_in(value_of(env, "budget_s"), 0) >= kAsPrinted * asked.budget_s;
  });
}

}  // namespace dlblas
