// The user's permanent decisions (store/rules.hpp), applied to one problem: whether a candidate is
// forbidden, which one is pinned. Cold: select asks once per problem. Read next:
// dispatch/decide.cpp.
#pragma once

#include <optional>
#include <vector>

#include "dispatch/dispatch.hpp"
#include "store/rules.hpp"

namespace dlblas {

/// No, and by which kind of rule, if all configurations of an implementation are forbidden for this
/// problem.
Support allowed(const Operator& op, const Problem& problem, const Implementation& impl);
/// Whether this configuration alone is forbidden.
bool config_forbidden(const Operator& op, const Problem& problem, const Implementation& impl,
                      const Config& config);
/// The default configuration; if that is forbidden, the first of the space that is not; none if all
/// are.
std::optional<Config> first_allowed(const Operator& op, const Query& q);
/// The pins that may apply, the problem's own before the operator's.
std::vector<Rule> kept_pins(const Operator& op, const Problem& problem);

}  // namespace dlblas
