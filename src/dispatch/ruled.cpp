// Rules and problems; see ruled.hpp.
#include "dispatch/ruled.hpp"

#include "registry/registry.hpp"

namespace dlblas {
namespace {

// Hashes the problem's key once, and only if a rule needs it.
class Subject {
 public:
  Subject(const Operator& op, const Problem& problem) : op_(op), problem_(problem) {}
  bool meets(const Rule& rule) {
    if (rule.op != op_.schema.name) return false;
    if (rule.key.empty()) return true;
    if (hash_.empty()) hash_ = key_hash(store_key(op_, problem_));
    return rule.key == hash_;
  }

 private:
  const Operator& op_;
  const Problem& problem_;
  std::string hash_;
};

}  // namespace

Support allowed(const Operator& op, const Problem& problem, const Implementation& impl) {
  Subject subject(op, problem);
  for (const Rule& rule : *Rules::process().current())
    if (rule.kind == Rule::Kind::kForbid && rule.implementation == impl.name &&
        rule.config.empty() && subject.meets(rule))
      return rule.key.empty()
                 ? Support::no("is forbidden for this operator, by `dlblas cache forbid`")
                 : Support::no("is forbidden for this problem, by `dlblas cache forbid`");
  return Support::yes();
}

bool config_forbidden(const Operator& op, const Problem& problem, const Implementation& impl,
                      const Config& config) {
  Subject subject(op, problem);
  std::string printed;
  for (const Rule& rule : *Rules::process().current()) {
    if (rule.kind != Rule::Kind::kForbid || rule.config.empty()) continue;
    if (rule.implementation != impl.name || !subject.meets(rule)) continue;
    if (printed.empty()) printed = impl.table().print(config);
    if (rule.config == printed) return true;
  }
  return false;
}

std::optional<Config> first_allowed(const Operator& op, const Query& q) {
  const Config preset = default_config(q);
  if (!config_forbidden(op, q.problem, q.self, preset)) return preset;
  const Space space = make_space(q);
  for (const Config& config : space.configs())
    if (!config_forbidden(op, q.problem, q.self, config)) return config;
  return std::nullopt;
}

std::vector<Rule> kept_pins(const Operator& op, const Problem& problem) {
  Subject subject(op, problem);
  std::vector<Rule> found;
  for (const bool of_problem : {true, false})
    for (const Rule& rule : *Rules::process().current())
      if (rule.kind == Rule::Kind::kPin && rule.key.empty() != of_problem && subject.meets(rule))
        found.push_back(rule);
  return found;
}

}  // namespace dlblas
