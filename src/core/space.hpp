// Search spaces: the product of a table's knobs, narrowed by named predicates.
// In: a KnobTable and constraints with declared dependencies. Out: every valid Config, in one fixed
// order. The builder prunes depth-first: a predicate runs as soon as the last knob it depends on
// has a value. Flow: an implementation's `constrain` narrows one; the tuner enumerates it.  Read
// next: tuner/strategy.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.hpp"

namespace dlblas {

class Space {
 public:
  /// True when the values (indexed by knob, in table order) are allowed together.
  using Predicate = std::function<bool(const Config&)>;

  explicit Space(const KnobTable& table);
  const KnobTable& table() const { return *table_; }

  /// Declares a constraint over the named knobs. Throws Error(kArgument) for an unknown knob.
  void require(std::string_view name, const std::vector<std::string_view>& knobs,
               Predicate allowed);
  /// The same over a table's aggregate. Later knobs still have the aggregate's defaults.
  template <typename C, typename F>
  void require(const ConfigTable<C>& table, std::string_view name,
               const std::vector<std::string_view>& knobs, F allowed) {
    require(name, knobs,
            [&table, allowed](const Config& config) { return allowed(table.from_config(config)); });
  }
  /// Over all knobs.
  template <typename C, typename F>
  void require(const ConfigTable<C>& table, std::string_view name, F allowed) {
    std::vector<std::string_view> all;
    for (const Knob& knob : table.knobs()) all.push_back(knob.name);
    require(table, name, all, allowed);
  }
  /// Leaves only this configuration.
  void require_only(std::string_view name, const Config& config);
  /// Keeps only these values of a knob (a user's `space=`); values outside its domain throw.
  void restrict(std::string_view knob, const std::vector<std::int64_t>& values);

  /// Every valid configuration, lexicographic in table order; {Config{}} for a table with no knobs.
  const std::vector<Config>& configs() const&;
  const std::vector<Config>& configs() && = delete;  // they are the space's: name it first
  bool contains(const Config& config) const;
  /// Name of the first constraint that the configuration breaks, or empty.
  std::string_view broken_constraint(const Config& config) const;

 private:
  struct Constraint {
    std::string name;
    int last_knob;
    Predicate allowed;
  };
  void enumerate(Config& partial, std::vector<Config>& out) const;

  const KnobTable* table_;
  std::vector<std::vector<std::int64_t>> domains_;
  std::vector<Constraint> constraints_;
  mutable std::vector<Config> configs_;
  mutable bool built_ = false;
};

}  // namespace dlblas
