// What the user decided for good (store/rules.hpp), asked for one problem: is this candidate
// forbidden, which one is pinned. Cold: select asks once a problem. Read next:
// dispatch/decide.cpp.
#pragma once

#include <optional>

#include "dispatch/dispatch.hpp"
#include "store/rules.hpp"

namespace dlblas {

/// Whether all configurations of an implementation are forbidden for this problem; the Support says
/// by which rule.
Support allowed(const Operator& op, const Problem& problem, const Implementation& impl);
/// Whether this configuration alone is forbidden.
bool config_forbidden(const Operator& op, const Problem& problem, const Implementation& impl,
                      const Config& config);
/// The pin that holds: of the problem's key, else of the operator.
std::optional<Rule> kept_pin(const Operator& op, const Problem& problem);

}  // namespace dlblas
