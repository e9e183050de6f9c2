// Depth-first enumeration of a constrained space; see space.hpp.
#include "core/space.hpp"

#include <algorithm>

namespace dlblas {

Space::Space(const KnobTable& table) : table_(&table) {
  for (const Knob& knob : table.knobs()) domains_.push_back(knob.values);
}

void Space::require(std::string_view name, const std::vector<std::string_view>& knobs,
                    Predicate allowed) {
  int last = -1;
  for (std::string_view knob : knobs) {
    const int i = table_->find(knob);
    if (i < 0)
      throw Error(ErrorKind::kArgument,
                  text("space: constraint ", name,
                       " names an unknown knob; expected a knob of the table, got \"", knob, "\""));
    last = std::max(last, i);
  }
  constraints_.push_back({std::string(name), last, std::move(allowed)});
  built_ = false;
}

void Space::require_only(std::string_view name, const Config& config) {
  const int last = table_->size() - 1;
  constraints_.push_back(
      {std::string(name), last, [config](const Config& other) { return other == config; }});
  built_ = false;
}

void Space::restrict(std::string_view knob, const std::vector<std::int64_t>& values) {
  const int i = table_->find(knob);
  if (i < 0)
    throw Error(ErrorKind::kArgument,
                text("space: unknown knob; expected a knob of the table, got \"", knob, "\""));
  std::vector<std::int64_t> kept;
  for (std::int64_t v : domains_[i])
    if (std::find(values.begin(), values.end(), v) != values.end()) kept.push_back(v);
  domains_[i] = std::move(kept);
  built_ = false;
}

void Space::enumerate(Config& partial, std::vector<Config>& out) const {
  const int knob = partial.count;
  if (knob == table_->size()) {
    out.push_back(partial);
    return;
  }
  partial.count = knob + 1;
  for (std::int64_t value : domains_[knob]) {
    partial.values[knob] = value;
    const bool pruned = std::any_of(
        constraints_.begin(), constraints_.end(),
        [&](const Constraint& c) { return c.last_knob == knob && !c.allowed(partial); });
    if (!pruned) enumerate(partial, out);
  }
  partial.values[knob] = 0;
  partial.count = knob;
}

const std::vector<Config>& Space::configs() const& {
  if (!built_) {
    configs_.clear();
    Config partial;
    enumerate(partial, configs_);
    built_ = true;
  }
  return configs_;
}

std::string_view Space::broken_constraint(const Config& config) const {
  for (const Constraint& c : constraints_)
    if (!c.allowed(config)) return c.name;
  return {};
}

bool Space::contains(const Config& config) const {
  if (config.count != table_->size()) return false;
  for (int i = 0; i < config.count; ++i)
    if (std::find(domains_[i].begin(), domains_[i].end(), config.values[i]) == domains_[i].end())
      return false;
  return broken_constraint(config).empty();
}

}  // namespace dlblas
