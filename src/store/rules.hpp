// A user's permanent decisions: a candidate is pinned or forbidden, for an operator or for one key
// of it. Kept beside the results, one small sealed file per rule, under the same trust. In: names
// and texts; nothing here knows operators. Out: the rules in force. Flow: `dlblas cache pin|forbid`
// writes, select asks (dispatch/ruled.hpp).  Read next: docs/store.md, "Rules".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dlblas {

struct Rule {
  enum class Kind { kForbid, kPin };
  Kind kind = Kind::kPin;
  std::string op;
  std::string key;  // a key's hash; empty: every problem of the operator
  std::string implementation;
  std::string config;  // of a pin, empty: its default; of a forbid, empty: all of them
  friend bool operator==(const Rule&, const Rule&) = default;
};
std::string_view name_of(Rule::Kind kind);

/// The text of a rule, and the strict inverse: true for what print writes and for nothing else.
std::string print(const Rule& rule);
bool parse(std::string_view text, Rule* out);

/// The rules of one store. Thread-safe.
class Rules {
 public:
  /// The rules of the user's store. Never destroyed.
  static Rules& process();
  explicit Rules(const std::string& root) : root_(root) {}

  /// The rules when this process first asked for them, or last changed or refreshed them; never
  /// null. A file that is not a rule is skipped, with one warning.
  std::shared_ptr<const std::vector<Rule>> current();
  void refresh();

  /// Keeps a rule: it is on the disk before this returns "". A pin replaces the pin of the same
  /// operator and key. Otherwise returns why not: a decision that would end with the process is no
  /// decision.
  std::string keep(const Rule& rule);
  /// Removes a rule; returns how many were removed (0 or 1). For a pin, only operator and key
  /// count.
  std::int64_t lift(const Rule& rule);
  /// The number of files that are no rules.
  std::int64_t bad();
  /// The same, and moves them to quarantine/, as bad records are. One that the system refuses to
  /// read is counted and stays.
  std::int64_t verify();

 private:
  struct Read;
  Read read() const;
  const std::string root_;
  struct State;
  std::shared_ptr<State> state_ = make_state();
  static std::shared_ptr<State> make_state();
};

}  // namespace dlblas
