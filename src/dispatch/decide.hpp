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
/// What the kept pins come to for this problem.
struct Kept {
  std::unique_ptr<Plan> plan;  // of the first that can serve; null: none
  bool of_problem = false;     // it names this problem, not the operator
  std::string passed_over;     // half a sentence on each before it; empty when there is none
};
Kept kept_choice(const Operator& op, const Problem& problem);

}  // namespace dlblas
