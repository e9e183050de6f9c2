// The decision behind a Plan, made once per Problem; see decide.hpp. Everything here is cold.
// Lookup order: pin (this process's, then a kept one), the store's record of exactly this key, the
// shipped table's, the model, the heuristic. Read next: store/ranking.hpp (which of the measured
// rows wins), dispatch/explain.cpp (the same, in words).
#include "dispatch/decide.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "core/absent_device.hpp"
#include "core/counters.hpp"
#include "core/env.hpp"
#include "core/error.hpp"
#include "core/library.hpp"
#include "core/log.hpp"
#include "core/spelling.hpp"
#include "dispatch/disabled.hpp"
#include "dispatch/errors.hpp"
#include "dispatch/nested.hpp"
#include "dispatch/ruled.hpp"
#include "jit/jit.hpp"
#include "store/ranking.hpp"

namespace dlblas {
namespace {

// By name: a user's implementation may be registered again, or removed.
struct Pin {
  std::string implementation, config;  // an empty configuration: the default one
};
std::mutex g_pins_mutex;
std::map<const Operator*, Pin>& pins() {
  static auto* map = new std::map<const Operator*, Pin>;
  return *map;
}
bool pin_of(const Operator& op, Pin* pin) {
  std::lock_guard lock(g_pins_mutex);
  const auto at = pins().find(&op);
  if (at == pins().end()) return false;
  *pin = at->second;
  return true;
}

// A pin applies to its implementation's kind of device: a GPU pin leaves the CPU's calls alone.
bool binds(const Operator& op, const Problem& problem, std::string_view implementation) {
  const Implementation* impl = op.find(implementation);
  return !impl || impl->flags.oracle || impl->backend == problem.device_type;
}
bool pin_for(const Operator& op, const Problem& problem, Pin* pin) {
  return pin_of(op, pin) && binds(op, problem, pin->implementation);
}

Store& shipped_store() {
  static auto* store = new Store(Store::shipped(own_folder() + "/shipped"));
  return *store;
}

std::unique_ptr<Plan> make_plan(const Problem& problem, const Implementation* impl,
                                const Config& config, Why why) {
  auto plan = std::make_unique<Plan>();
  plan->problem = problem;
  plan->implementation = impl;
  plan->config = config;
  plan->why = why;
  return plan;
}

// x86 reads an element at any address; a GPU faults, which loses the context and all its memory.
bool splits_elements(const Problem& problem) {
  const std::size_t count = Registry::process().by_id(problem.op).schema.tensors.size();
  return std::any_of(problem.tensors, problem.tensors + count,
                     [](const TensorTraits& t) { return (1 << t.align_log2) < size_of(t.dtype); });
}

// Why a pinned implementation cannot serve, above the table of all candidates.
[[noreturn]] void pin_does_not_fit(const Operator& op, const Problem& problem, const Pin& pin,
                                   const std::string& why) {
  errors::nothing_fits(op.schema.name, text("  pinned: ", pin.implementation, ": no: ", why, "\n",
                                            print_table(explain_candidates(op, problem))));
}

// Any configuration may be pinned, those of plain calls included: it alone serves, so rows keep
// their bits. Returns "", or the constraint that it breaks.
std::string pin_breaks(const Query& q, const Config& config) {
  if (make_space(q).contains(config)) return "";
  Problem plain = q.problem;
  plain.flags &= static_cast<std::uint8_t>(~kDeterministic);
  const Space space = make_space(q.about(plain));
  return std::string(space.contains(config) ? "" : space.broken_constraint(config));
}

std::unique_ptr<Plan> from_pin(const Operator& op, const Problem& problem, const DeviceInfo& device,
                               const Pin& pin) {
  const Implementation* known = op.find(pin.implementation);
  if (!known) pin_does_not_fit(op, problem, pin, "is registered no more");
  const Implementation& impl = *known;
  const Query q{problem, device, impl};
  if (const Support s = check_support(q); !s) pin_does_not_fit(op, problem, pin, s.text(op.schema));
  if (pin.config.empty()) {
    const std::optional<Config> config = first_allowed(op, q);
    if (!config) pin_does_not_fit(op, problem, pin, "each of its configurations is forbidden");
    return make_plan(problem, &impl, *config, Why::kPinned);
  }
  const Config config = impl.table().parse(pin.config, impl.name);
  if (const std::string broken = pin_breaks(q, config); !broken.empty())
    pin_does_not_fit(op, problem, pin,
                     text(impl.table().print(config), " breaks the constraint: ", broken));
  if (config_forbidden(op, problem, impl, config))
    pin_does_not_fit(op, problem, pin,
                     text(impl.table().print(config), " is forbidden, by `dlblas cache forbid`"));
  return make_plan(problem, &impl, config, Why::kPinned);
}

// A kept pin outlives library versions: its implementation may be gone, or support less. `why_not`
// then says so, and the choice is made without the pin.
std::unique_ptr<Plan> from_rule(const Operator& op, const Problem& problem,
                                const DeviceInfo& device, const Rule& rule, std::string* why_not) {
  const Implementation* impl = op.find(rule.implementation);
  if (!impl) return *why_not = "is registered no more", nullptr;
  const Query q{problem, device, *impl};
  if (const Support s = check_support(q); !s) return *why_not = s.text(op.schema), nullptr;
  try {
    const bool any = rule.config.empty();
    const std::optional<Config> config =
        any ? first_allowed(op, q) : impl->table().parse(rule.config, impl->name);
    if (!config || config_forbidden(op, problem, *impl, *config))
      return *why_not = "is forbidden", nullptr;
    if (any || pin_breaks(q, *config).empty())
      return make_plan(problem, impl, *config, Why::kPinned);
  } catch (const Error&) {  // the knobs are others by now
  }
  return *why_not = rule.config + " is no configuration of it here", nullptr;
}

std::unique_ptr<Plan> from_store(const Operator& op, const Problem& problem, Store& store,
                                 Why why) {
  const auto merged = store.load(store_key(op, problem));
  const std::vector<CurrentRow> rows = current_rows(op, problem, *merged);
  const CurrentRow* best = best_row(rows);
  return best ? make_plan(problem, best->implementation, best->config, why) : nullptr;
}

// A supporting implementation with its default configuration, or the first that is not forbidden;
// not one that failed when it was measured.
struct Preset {
  const Implementation* implementation;
  Config config;
};

std::vector<Preset> presets_of(const Operator& op, const Problem& problem,
                               const DeviceInfo& device) {
  const auto merged = Store::process().load(store_key(op, problem));
  std::vector<Preset> presets;
  for (const Implementation* impl : op.candidates()) {
    const Query q{problem, device, *impl};
    if (!check_choice(q)) continue;
    const std::optional<Config> config = first_allowed(op, q);
    if (config && (impl->flags.oracle || !known_failure(*merged, q, *config)))
      presets.push_back({impl, *config});
  }
  return presets;
}

bool built_in(const Preset& p) {
  return !p.implementation->flags.oracle && !p.implementation->flags.user;
}

// The model decides only when it can compare: every built-in candidate must have an estimate.
std::unique_ptr<Plan> from_model(const Problem& problem, const std::vector<Preset>& presets,
                                 const DeviceInfo& device) {
  const Preset* best = nullptr;
  double best_ms = 0;
  int compared = 0;
  for (const Preset& p : presets) {
    if (!built_in(p)) continue;
    if (!p.implementation->estimate) return nullptr;
    const double ms = p.implementation->estimate({problem, device, *p.implementation}, p.config);
    if (!best || ms < best_ms) best = &p, best_ms = ms;
    ++compared;
  }
  return compared >= 2 ? make_plan(problem, best->implementation, best->config, Why::kModel)
                       : nullptr;
}

// The operator's own order. A user's implementation that was never measured was never checked
// either: it ranks after the built-in ones and the reference.
std::unique_ptr<Plan> from_order(const Problem& problem, const std::vector<Preset>& presets) {
  auto first = std::find_if(presets.begin(), presets.end(), built_in);
  if (first == presets.end())
    first = std::find_if(presets.begin(), presets.end(),
                         [](const Preset& p) { return p.implementation->flags.oracle; });
  const Preset& p = first == presets.end() ? presets.front() : *first;
  return make_plan(problem, p.implementation, p.config, Why::kHeuristic);
}

// The choice where nothing was measured: the shipped table's, else the model's, else the order's.
std::unique_ptr<Plan> unmeasured(const Operator& op, const Problem& problem,
                                 const DeviceInfo& device, Asker asker) {
  auto plan = from_store(op, problem, shipped_store(), Why::kShipped);
  const std::vector<Preset> presets = presets_of(op, problem, device);
  if (!plan && presets.empty())
    errors::nothing_fits(op.schema.name, print_table(explain_candidates(op, problem)));
  if (asker == Asker::kCall && env_flag(EnvVar::kRequireHit))
    throw Error(
        ErrorKind::kTuning,
        text(op.schema.name,
             ": call has no tuned result and DLBLAS_REQUIRE_HIT is set; expected a record for ",
             print_problem(op, problem), ", got none; tune it with dlblas.get_op or `dlblas tune`"),
        {.op = op.schema.name, .argument = "call"});
  if (!plan) plan = from_model(problem, presets, device);
  return plan ? std::move(plan) : from_order(problem, presets);
}

}  // namespace

std::string_view name_of(Why why) {
  constexpr std::string_view kNames[] = {"pinned", "store", "shipped", "model", "heuristic"};
  return kNames[static_cast<int>(why)];
}

Support check_support(const Query& q) {
  const auto& [problem, device, impl] = q;
  if (impl.backend != problem.device_type && !impl.flags.oracle)
    return Support::no("runs on another kind of device");
  if (is_disabled(impl.name)) return Support::no("disabled by DLBLAS_DISABLE");
  if (device.arch < impl.min_arch)
    return Support::no("needs sm_{} or later, this device is sm_{}", impl.min_arch, device.arch);
  if (device.arch > impl.max_arch)
    return Support::no("serves up to sm_{}, this device is sm_{}", impl.max_arch, device.arch);
  if (impl.sources && !is_absent(problem.device()) && !jit::unavailable().empty())
    return Support::no(
        "needs NVRTC, which is not usable here; `dlblas info` says why; where it is missing, run "
        "`pip install nvidia-cuda-nvrtc`");
  if ((problem.flags & kDeterministic) && !impl.flags.deterministic)
    return Support::no("is not deterministic, and the call asks for it");
  if ((problem.flags & kRepeatable) && !impl.flags.repeatable)
    return Support::no("may give other bits in another run, and the call asks for the same");
  if ((problem.flags & kCapturing) && !impl.flags.capturable)
    return Support::no(
        "may not be captured into a CUDA graph; call the operator outside the capture, or, if it "
        "neither synchronises nor allocates, register it with capturable=True");
  if (problem.device_type == DeviceType::kCuda && splits_elements(problem))
    return Support::no(
        "an element lies at an address that is not a multiple of its size, which a GPU cannot "
        "read");
  if (const Support s = allowed(Registry::process().by_id(problem.op), problem, impl); !s) return s;
  if (const Support s = impl.supports(q); !s) return s;
  return parts_support(q);
}

Support check_choice(const Query& q) {
  if (const Support s = check_support(q); !s) return s;
  if (!(q.problem.flags & kDeterministic)) return Support::yes();
  if (q.self.flags.user)
    return Support::no(
        "is registered from outside: where a call asks for the same bits before and after tuning, "
        "a "
        "pin alone chooses it");
  return q.self.same_bits ? q.self.same_bits(q) : Support::yes();
}

std::vector<CurrentRow> current_rows(const Operator& op, const Problem& problem,
                                     const Merged& merged) {
  const DeviceInfo& device = device_info(problem.device());
  std::vector<CurrentRow> rows;
  bool first = true;  // the first supporting implementation's default is the one to beat
  for (const Implementation* impl : op.candidates()) {
    const Query q{problem, device, *impl};
    if (!check_choice(q)) continue;
    const Space space = make_space(q);
    const Config preset = default_config(q);
    Identity identity(q);
    const auto begin = static_cast<std::ptrdiff_t>(rows.size());
    for (const Merged::Row& row : merged.rows) {
      const Record::Candidate& c = row.candidate;
      if (!identity.holds(c)) continue;
      if (!c.failure.empty() || c.samples_ms.empty() || !(c.error <= 1)) continue;
      try {
        const Config config = impl->table().parse(c.config, impl->name);
        if (space.contains(config) && !config_forbidden(op, problem, *impl, config))
          rows.push_back({impl, config, first && config == preset, &c, row.env.get()});
      } catch (const Error&) {
        log(LogLevel::kInfo, text(op.schema.name, ": a stored configuration of ", impl->name,
                                  " is no longer valid: ", c.config));
      }
    }
    std::stable_sort(rows.begin() + begin, rows.end(),
                     [&](const CurrentRow& a, const CurrentRow& b) {
                       return impl->table().is_before(a.config, b.config);
                     });
    first = false;
  }
  return rows;
}

const Record::Candidate* known_failure(const Merged& merged, const Query& q, const Config& config) {
  const std::string text = q.self.table().print(config), identity = Identity(q).of(config);
  for (const Merged::Row& row : merged.rows) {
    const Record::Candidate& c = row.candidate;
    if (c.implementation == q.self.name && c.source_hash == identity && c.config == text &&
        (!c.failure.empty() || !(c.error <= 1)))
      return &c;
  }
  return nullptr;
}

const CurrentRow* best_row(const std::vector<CurrentRow>& rows) {
  std::vector<Contender> contenders;
  for (const CurrentRow& row : rows)
    contenders.push_back({row.candidate->samples_ms, row.is_default, row.candidate->measured_at});
  const int winner = pick_winner(contenders);
  return winner < 0 ? nullptr : &rows[winner];
}

namespace {
// Warns once per problem, for at most kMax problems of an operator.
void warn_of_reference(const Operator& op, const Problem& problem) {
  constexpr std::size_t kMax = 8;
  static std::mutex mutex;
  static auto* const told = new std::map<std::string, std::set<std::string>>;
  const std::string said = print_problem(op, problem);
  bool last = false;
  {
    const std::lock_guard lock(mutex);
    std::set<std::string>& of = (*told)[op.schema.name];
    if (of.size() >= kMax || !of.insert(said).second) return;
    last = of.size() == kMax;
  }
  log(LogLevel::kWarn, text(op.schema.name, ": no fast implementation supports ", said,
                            "; the reference runs (correct, slow); see dlblas.explain",
                            last ? "; others of this operator are not told" : ""));
}
}  // namespace

std::unique_ptr<Plan> decide(const Operator& op, const Problem& problem, Asker asker) {
  const DeviceInfo& device = device_info(problem.device());
  if (Pin pin{}; pin_for(op, problem, &pin)) return from_pin(op, problem, device, pin);
  if (Kept kept = kept_choice(op, problem); kept.plan) return std::move(kept.plan);

  auto plan = from_store(op, problem, Store::process(), Why::kStore);
  count(plan ? g_counters.store_hits : g_counters.store_misses);
  if (!plan) plan = unmeasured(op, problem, device, asker);
  if (plan->implementation->flags.oracle) warn_of_reference(op, problem);
  return plan;
}

bool pinned_in_process(const Operator& op, const Problem& problem) {
  Pin pin{};
  return pin_for(op, problem, &pin);
}

Kept kept_choice(const Operator& op, const Problem& problem) {
  Kept kept;
  const DeviceInfo& device = device_info(problem.device());
  for (const Rule& rule : kept_pins(op, problem)) {
    if (!binds(op, problem, rule.implementation)) continue;
    std::string why_not;
    kept.plan = from_rule(op, problem, device, rule, &why_not);
    kept.of_problem = !rule.key.empty();
    if (kept.plan) break;
    const std::string said =
        text("the kept pin of ", rule.implementation, " is passed over: it ", why_not);
    log_once(LogLevel::kWarn, text("rule/", op.schema.name, rule.key),
             text(op.schema.name, ": ", said, "; see `dlblas cache rules`"));
    kept.passed_over += "; " + said;
  }
  return kept;
}

void pin(const Operator& op, std::string_view name, std::string_view config) {
  if (name.empty()) {
    std::lock_guard lock(g_pins_mutex);
    pins().erase(&op);
  } else {
    const Implementation* impl = op.find(name);
    if (!impl) {
      std::string known;
      std::vector<std::string_view> names;
      for (const Implementation* i : op.candidates()) {
        known += text(known.empty() ? "" : ", ", i->name);
        names.push_back(i->name);
      }
      throw Error(ErrorKind::kArgument,
                  text(op.schema.name, ": implementation is unknown; expected one of ", known,
                       ", got ", name, did_you_mean(name, names)),
                  {op.schema.name, "implementation", known, std::string(name)});
    }
    if (!config.empty()) impl->table().parse(config, impl->name);
    std::lock_guard lock(g_pins_mutex);
    pins()[&op] = {std::string(name), std::string(config)};
  }
  forget(op);
}

}  // namespace dlblas
