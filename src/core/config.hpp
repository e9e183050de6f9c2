// Configurations: what a search chooses. An implementation declares one aggregate of knobs and one
// table over it; printer, strict parser, search axes, store text and log line all come from the
// table. In: an aggregate of ints, bools and enums. Out: its erased form, Config, of at most 16
// (name, int64). Flow: [select] picks a Config; `prepare` turns it back into the aggregate.  Read
// next: core/space.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace dlblas {

inline constexpr int kMaxKnobs = 16;

/// One searched field of a configuration aggregate.
struct Knob {
  std::string_view name;
  std::vector<std::int64_t> values;      // the declared domain, ascending
  std::vector<std::string_view> labels;  // names of the values, for enumerated knobs; else empty
};

/// The erased form: values in the order of the implementation's table.
struct Config {
  std::array<std::int64_t, kMaxKnobs> values{};
  std::int32_t count = 0;
  friend bool operator==(const Config&, const Config&) = default;
};

/// The table of an implementation's knobs, erased. `ConfigTable<C>` below adds the aggregate.
class KnobTable {
 public:
  KnobTable() = default;
  /// More than kMaxKnobs: Error(kInternal).
  explicit KnobTable(std::vector<Knob> knobs);
  const std::vector<Knob>& knobs() const { return knobs_; }
  int size() const { return static_cast<int>(knobs_.size()); }
  /// Index of the knob, or -1.
  int find(std::string_view name) const;
  /// `block_m=64 order=kmn`; "default" when there are no knobs.
  std::string print(const Config& config) const;
  /// Strict inverse of print: every knob once, in order, each value in its domain; else throws
  /// Error(kArgument) naming `owner` (an implementation's name).
  Config parse(std::string_view text, std::string_view owner) const;
  /// The order of a space: compares values by their positions in the knobs' domains.
  bool is_before(const Config& a, const Config& b) const;
  /// As a C++ value of `aggregate`, for the JIT: `Name{.block_m = decltype(Name::block_m)(64)}`.
  /// The table's order must be the aggregate's: designators out of order do not compile.
  std::string literal(const Config& config, std::string_view aggregate) const;
  /// The domain of a knob, which the table must have.
  const std::vector<std::int64_t>& values(std::string_view knob) const {
    return knobs_[static_cast<std::size_t>(find(knob))].values;
  }
  /// True when every value lies in its knob's domain.
  bool contains(const Config& config) const;

 private:
  std::vector<Knob> knobs_;
};

namespace detail {
template <typename M>
struct MemberOf;
template <typename C, typename V>
struct MemberOf<V C::*> {
  using Class = C;
  using Value = V;
};
}  // namespace detail

/// A knob, and accessors for the aggregate's member that it stands for.
template <typename C>
struct KnobField {
  Knob knob;
  std::int64_t (*get)(const C&);
  void (*set)(C&, std::int64_t);
};

/// `field<&GemmMmaConfig::block_m>("block_m", {64, 128})`; members may be integers, bools or enums.
template <auto Member>
auto field(std::string_view name, std::vector<std::int64_t> values,
           std::vector<std::string_view> labels = {}) {
  using C = typename detail::MemberOf<decltype(Member)>::Class;
  using V = typename detail::MemberOf<decltype(Member)>::Value;
  return KnobField<C>{Knob{name, std::move(values), std::move(labels)},
                      [](const C& c) { return static_cast<std::int64_t>(c.*Member); },
                      [](C& c, std::int64_t v) { c.*Member = static_cast<V>(v); }};
}

/// The table of aggregate C: knobs, and the conversion between C and its erased form.
template <typename C>
class ConfigTable : public KnobTable {
 public:
  ConfigTable(std::initializer_list<KnobField<C>> fields)
      : KnobTable(knobs_of(fields)), fields_(fields) {}
  Config to_config(const C& c) const {
    Config out;
    for (const KnobField<C>& f : fields_) out.values[out.count++] = f.get(c);
    return out;
  }
  C from_config(const Config& config) const {
    C c{};
    for (int i = 0; i < config.count; ++i) fields_[i].set(c, config.values[i]);
    return c;
  }

 private:
  static std::vector<Knob> knobs_of(std::initializer_list<KnobField<C>> fields) {
    std::vector<Knob> knobs;
    for (const KnobField<C>& f : fields) knobs.push_back(f.knob);
    return knobs;
  }
  std::vector<KnobField<C>> fields_;
};

/// A kernel's traits. A table of the aggregate's members, in declaration order, prints the C++
/// value that the JIT compiles for, as a ConfigTable does. `member<&Traits::type>("type")`.
template <auto Member>
auto member(std::string_view name) {
  return field<Member>(name, {});
}
template <typename T>
class TraitsTable {
 public:
  TraitsTable(std::string_view aggregate, std::initializer_list<KnobField<T>> fields)
      : aggregate_(aggregate), table_(fields) {}
  std::string literal(const T& traits) const {
    return table_.literal(table_.to_config(traits), aggregate_);
  }

 private:
  std::string_view aggregate_;
  ConfigTable<T> table_;
};

}  // namespace dlblas
