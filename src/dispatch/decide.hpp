// The slow half of select: asks every implementation, then pin, store, shipped table, model,
// heuristic.
#pragma once

#include <memory>

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// What asks. A part's time is in the record of its whole, so DLBLAS_REQUIRE_HIT is about calls.
enum class Asker : std::uint8_t { kCall, kWhole };
/// Throws Error(kUnsupported) with every candidate's reason, Error(kTuning) for a call's miss under
/// DLBLAS_REQUIRE_HIT.
std::unique_ptr<Plan> decide(const Operator& op, const Problem& problem,
                             Asker asker = Asker::kCall);

/// Whether a `pin` holds for the problem, in this process alone; a kept pin comes after it.
bool pinned_in_process(const Operator& op, const Problem& problem);
/// What the kept pins come to for this problem.
struct Kept {
  std::unique_ptr<Plan> plan;  // of the first that can serve; null: none
  bool of_problem = false;     // it names this problem, not the operator
  std::string passed_over;     // half a sentence on each before it; empty when there is none
};
Kept kept_choice(const Operator& op, const Problem& problem);

}  // namespace dlblas
