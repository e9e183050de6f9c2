// The candidates of a search; see candidates.hpp.
#include "tuner/candidates.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "core/error.hpp"
#include "core/spelling.hpp"
#include "dispatch/errors.hpp"
#include "dispatch/ruled.hpp"

namespace dlblas {
namespace {

bool among(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void refuse(const Operator& op, const std::string& argument,
                         const std::string& problem, const std::string& expected,
                         const std::string& got, const std::string& hint = {}) {
  throw Error(ErrorKind::kArgument,
              text(op.schema.name, ": ", argument, " ", problem, "; expected ", expected, ", got ",
                   got, hint),
              {op.schema.name, argument, expected, got});
}

// A user's value of a knob: one of its labels, true or false, or a number of its domain.
std::int64_t read_value(const Operator& op, const Knob& knob, const std::string& word) {
  for (std::size_t i = 0; i < knob.labels.size(); ++i)
    if (knob.labels[i] == word) return knob.values[i];
  if (word == "true" || word == "false") return word == "true";
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool known = std::find(knob.values.begin(), knob.values.end(), value) != knob.values.end();
  if (failed != std::errc{} || end != word.data() + word.size() || !known) {
    std::string expected;
    for (const std::int64_t v : knob.values) expected += text(expected.empty() ? "" : ", ", v);
    refuse(op, std::string(knob.name), "has a value outside its domain", "one of " + expected,
           word);
  }
  return value;
}

// Restrictions and names that apply to nothing are typing mistakes, not empty searches.
void check_names(const Operator& op, const TuneOptions& options) {
  std::string implementations;
  std::vector<std::string_view> names;
  for (const Implementation* impl : op.candidates()) {
    implementations += text(implementations.empty() ? "" : ", ", impl->name);
    names.push_back(impl->name);
  }
  const auto known = [&](const std::string& name) {
    if (!op.find(name))
      refuse(op, "implementation", "is unknown", "one of " + implementations, name,
             did_you_mean(name, names));
  };
  for (const std::string& name : options.implementations) known(name);
  for (const KnobRestriction& r : options.knobs) {
    if (!r.implementation.empty()) known(r.implementation);
    std::set<std::string_view> knobs;
    for (const Implementation* impl : op.candidates())
      if (r.implementation.empty() || r.implementation == impl->name)
        for (const Knob& knob : impl->table().knobs()) knobs.insert(knob.name);
    if (knobs.count(r.knob) > 0) continue;
    std::string known_knobs;
    for (const std::string_view knob : knobs)
      known_knobs += text(known_knobs.empty() ? "one of " : ", ", knob);
    refuse(op, "space", "names an unknown knob", knobs.empty() ? "no knob at all" : known_knobs,
           r.knob);
  }
}

}  // namespace

Candidates::Candidates(const Operator& op, const Problem& problem, const TuneOptions& options,
                       std::vector<TuneCandidate>& seen)
    : problem_(problem) {
  check_names(op, options);
  const DeviceInfo& device = device_info(problem.device());
  const Implementation* oracle = nullptr;
  for (const Implementation* impl : op.candidates()) {
    const Support support = check_choice({problem, device, *impl});
    seen.push_back({impl, support ? "" : support.text(op.schema)});
    if (support && impl->flags.oracle)
      oracle = impl;
    else if (support)
      supporting_.push_back(impl);
  }
  if (supporting_.empty() && oracle) supporting_.push_back(oracle);
  if (supporting_.empty()) errors::nothing_fits(op.schema.name, print_table(explain(op, problem)));
  default_config_ = dlblas::default_config({problem, device, first()});
  default_allowed_ = !config_forbidden(op, problem, first(), default_config_);

  for (TuneCandidate& candidate : seen) {
    if (!candidate.refused.empty()) continue;
    const Implementation& impl = *candidate.implementation;
    if (&impl == oracle && &first() != oracle)
      candidate.refused =
          "is the oracle: it runs where nothing else does, and is never timed beside others";
    else if (!among(options.implementations, impl.name))
      candidate.refused = "is not among the implementations asked for";
    if (candidate.refused.empty()) add_space(op, impl, options, candidate);
  }
  if (space_.points.empty())
    refuse(op, "space", "leaves nothing to measure", "at least one valid configuration", "none");
  narrowed_ = space_;
}

void Candidates::add_space(const Operator& op, const Implementation& impl,
                           const TuneOptions& options, TuneCandidate& seen) {
  const Query q{problem_, device_info(problem_.device()), impl};
  Space space = make_space(q);
  for (const KnobRestriction& r : options.knobs) {
    const int k = impl.table().find(r.knob);
    if (k < 0 || (!r.implementation.empty() && r.implementation != impl.name)) continue;
    std::vector<std::int64_t> values;
    for (const std::string& word : r.values)
      values.push_back(read_value(op, impl.table().knobs()[static_cast<std::size_t>(k)], word));
    space.restrict(r.knob, values);
  }
  const Config preset = dlblas::default_config(q);
  int first_kept = -1;
  bool has_default = false;
  for (const Config& config : space.configs()) {
    if (options.where && !options.where(impl.name, impl.table().print(config))) continue;
    if (config_forbidden(op, problem_, impl, config)) continue;
    if (first_kept < 0) first_kept = static_cast<int>(space_.points.size());
    has_default |= config == preset;
    space_.points.push_back({&impl, config});
    extras_.push_back({true, config == preset});
    ++seen.configs;
  }
  if (has_default && !preset_) preset_ = &impl, preset_config_ = preset;
  if (first_kept < 0)
    seen.refused = "has no valid configuration left by space= and where=";
  else if (!has_default)
    extras_[static_cast<std::size_t>(first_kept)].first = true;
}

int Candidates::order_of(const Implementation& impl) const {
  return static_cast<int>(std::find(supporting_.begin(), supporting_.end(), &impl) -
                          supporting_.begin());
}

int Candidates::find(const SearchSpace& in, const Implementation& impl, const Config& config) {
  for (std::size_t i = 0; i < in.points.size(); ++i)
    if (in.points[i].implementation == &impl && in.points[i].config == config)
      return static_cast<int>(i);
  return -1;
}

std::vector<CurrentRow> Candidates::inside(const std::vector<CurrentRow>& rows) const {
  std::vector<CurrentRow> kept;
  for (const CurrentRow& row : rows) {
    if (find(narrowed_, *row.implementation, row.config) < 0) continue;
    kept.push_back(row);
    kept.back().is_default = row.implementation == preset_ && row.config == preset_config_;
  }
  return kept;
}

bool Candidates::keep_unknown(const Merged& merged) {
  const auto known = [&](const Implementation& impl) {
    Identity identity({problem_, device_info(problem_.device()), impl});
    return std::any_of(merged.rows.begin(), merged.rows.end(), [&](const Merged::Row& row) {
      const Record::Candidate& c = row.candidate;
      if (!identity.holds(c)) return false;
      try {
        return find(narrowed_, impl, impl.table().parse(c.config, impl.name)) >= 0;
      } catch (const Error&) {
        return false;  // of another version of the table
      }
    });
  };
  std::map<const Implementation*, bool> known_already;
  bool complete = true;
  for (const Implementation* impl : supporting_) {
    // What the user left out is not missed; the reference beside others is not in supporting_.
    const bool taking_part = std::any_of(space_.points.begin(), space_.points.end(),
                                         [&](const Point& p) { return p.implementation == impl; });
    known_already[impl] = !taking_part || known(*impl);
    complete &= known_already[impl];
  }
  if (complete) return true;
  SearchSpace kept;
  std::vector<Extra> kept_extras;
  for (std::size_t i = 0; i < space_.points.size(); ++i)
    if (!known_already[space_.points[i].implementation]) {
      kept.points.push_back(space_.points[i]);
      kept_extras.push_back(extras_[i]);
    }
  space_ = std::move(kept);
  extras_ = std::move(kept_extras);
  return false;
}

void Candidates::add_anchor(const Implementation& impl, const Config& config) {
  if (const int id = find(space_, impl, config); id >= 0) {
    extras_[static_cast<std::size_t>(id)].first = true;
    return;
  }
  const auto before = [&](const Point& p) {
    const int order = order_of(*p.implementation), mine = order_of(impl);
    return order != mine ? order < mine : impl.table().is_before(p.config, config);
  };
  std::size_t at = 0;
  while (at < space_.points.size() && before(space_.points[at])) ++at;
  const bool eligible = find(narrowed_, impl, config) >= 0;
  space_.points.insert(space_.points.begin() + static_cast<std::ptrdiff_t>(at), {&impl, config});
  extras_.insert(extras_.begin() + static_cast<std::ptrdiff_t>(at), {eligible, true});
}

void Candidates::drop_all() {
  space_.points.clear();
  extras_.clear();
}

void Candidates::add_anchors(const CurrentRow* incumbent, const CurrentRow* narrowed_incumbent,
                             const std::vector<const CurrentRow*>& again) {
  if (default_allowed_) add_anchor(first(), default_config_);
  if (preset_) add_anchor(*preset_, preset_config_);
  const auto timed = [&](const CurrentRow& row) {  // the oracle is not, beside others
    return !row.implementation->flags.oracle || &first() == row.implementation;
  };
  for (const CurrentRow* row : again)
    if (timed(*row)) add_anchor(*row->implementation, row->config);
  for (const CurrentRow* row : {incumbent, narrowed_incumbent}) {
    if (!row || !timed(*row)) continue;
    incumbents_.push_back({row->implementation, row->config});
    add_anchor(*row->implementation, row->config);
  }
}

RaceInput Candidates::race_input(Strategy& strategy) const {
  RaceInput input{space_, strategy, {}, {}, find(space_, first(), default_config_), -1, {}};
  if (preset_) input.preset_id = find(space_, *preset_, preset_config_);
  for (const Point& p : incumbents_)
    input.incumbent_ids.push_back(find(space_, *p.implementation, p.config));
  for (std::size_t i = 0; i < extras_.size(); ++i) {
    input.eligible.push_back(extras_[i].eligible);
    if (extras_[i].first) input.first.push_back(static_cast<int>(i));
  }
  return input;
}

}  // namespace dlblas
