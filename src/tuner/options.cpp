// The C ABI's tuning options as the tuner's own; see tune.hpp.
#include <cmath>

#include "core/error.hpp"
#include "tuner/tune.hpp"

namespace dlblas {
namespace {

constexpr int kMaxNarrowed = 4096;

std::vector<std::string> split(const char* list) {
  std::vector<std::string> words;
  std::string_view rest = list ? list : "";
  while (!rest.empty()) {
    std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

[[noreturn]] void refuse(const std::string& argument, const std::string& problem,
                         const std::string& expected, const std::string& got) {
  throw Error(ErrorKind::kArgument,
              text("tune: ", argument, " ", problem, "; expected ", expected, ", got ", got),
              {"tune", argument, expected, got});
}

// Narrowings: three arrays of num_knobs texts; the array of implementations may be left out.
std::vector<KnobRestriction> knobs_from(const dlblas_tune_options& options) {
  const int count = options.num_knobs;
  if (count < 0 || count > kMaxNarrowed)
    refuse("num_knobs", "is out of range", text("0 to ", kMaxNarrowed), std::to_string(count));
  std::vector<KnobRestriction> knobs;
  for (int i = 0; i < count; ++i) {
    const char* const name = options.knob_names ? options.knob_names[i] : nullptr;
    const char* const values = options.knob_values ? options.knob_values[i] : nullptr;
    if (!name || !values)
      refuse(name ? "knob_values" : "knob_names", "is null", text(count, " texts"),
             text("NULL for knob ", i));
    const char* const of = options.knob_implementations ? options.knob_implementations[i] : "";
    knobs.push_back({of ? of : "", name, split(values)});
  }
  return knobs;
}

}  // namespace

TuneOptions options_from(const dlblas_tune_options* options) {
  TuneOptions result;
  if (!options) return result;
  if (options->size < sizeof(dlblas_tune_options))
    refuse("options", "has a wrong size",
           text("size = ", sizeof(dlblas_tune_options), ", this ABI's sizeof(dlblas_tune_options)"),
           std::to_string(options->size));
  if (!std::isfinite(options->seconds))
    refuse("seconds", "is no budget", "a finite number", std::to_string(options->seconds));
  result.seconds = options->seconds;
  if (options->strategy) result.strategy = options->strategy;
  result.seed = options->seed;
  result.max_evaluations = options->max_evaluations;
  result.force = options->force != 0;
  if (options->measure_in < 0 || options->measure_in > 2)
    refuse("measure_in", "is unknown", "0 (the library's choice), 1 (a worker) or 2 (this process)",
           std::to_string(options->measure_in));
  result.measure_in = static_cast<MeasureIn>(options->measure_in);
  result.implementations = split(options->implementations);
  if (options->implementations && result.implementations.empty())
    refuse("implementations", "names none",
           "at least one implementation, or no list for all of them", "an empty list");
  result.knobs = knobs_from(*options);
  void* const self = options->self;
  if (const auto where = options->where)
    result.where = [where, self](std::string_view implementation, std::string_view config) {
      return where(self, std::string(implementation).c_str(), std::string(config).c_str()) != 0;
    };
  if (const auto on_event = options->on_event)
    result.on_event = [on_event, self](const dlblas_event& event) {
      return on_event(self, &event) != 0;
    };
  return result;
}

}  // namespace dlblas
