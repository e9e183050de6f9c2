// The slow half of select: asks every implementation, then pin, store, shipped table, model,
// heuristic.
#pragma once

#include <memory>

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// Throws Error(kUnsupported) with every candidate's reason, Error(kTuning) for a miss under
/// DLBLAS_REQUIRE_HIT.
std::unique_ptr<Plan> decide(const Operator& op, const Problem& problem);

/// Whether `pin` holds here, in this process alone; a kept pin comes after it.
bool pinned_in_process(const Operator& op);
/// Half a sentence on a kept pin that does not serve this problem; empty when there is none.
std::string passed_over(const Operator& op, const Problem& problem);

}  // namespace dlblas
