// What the user decided for good (store/rules.hpp), asked for one problem: is this candidate
// forbidden, which one is pinned. Cold: select asks once per problem. Read next:
// dispatch/decide.cpp.
#pragma once

#include <optional>
#include <vector>

#include "dispatch/dispatch.hpp"
#include "store/rules.hpp"

namespace dlblas {

/// Whether all configurations of an implementation are forbidden for this problem; the Support says
/// by which rule.
Support allowed(const Operator& op, const Problem& problem, const Implementation& impl);
/// Whether this configuration alone is forbidden.
bool config_forbidden(const Operator& op, const Problem& problem, const Implementation& impl,
                      const Config& config);
/// The default configuration, or the first of the space where that one is forbidden; none where all
/// are.
std::optional<Config> first_allowed(const Operator& op, const Query& q);
/// The pins that may hold, the problem's own before those of the operator.
std::vector<Rule> kept_pins(const Operator& op, const Problem& problem);

}  // namespace dlblas
