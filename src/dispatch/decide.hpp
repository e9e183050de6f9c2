// The slow half of select: asks the implementations, and decides by pin, store, shipped table,
// model or heuristic.
#pragma once

#include <memory>

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// The requester. A part's time is in the record of its whole, so DLBLAS_REQUIRE_HIT concerns only
/// calls.
enum class Asker : std::uint8_t { kCall, kWhole };
/// Throws Error(kUnsupported) with every candidate's reason, or Error(kTuning) when a call misses
/// under DLBLAS_REQUIRE_HIT.
std::unique_ptr<Plan> decide(const Operator& op, const Problem& problem,
                             Asker asker = Asker::kCall);

/// Whether this process's `pin` applies to the problem; it takes precedence over a kept pin.
bool pinned_in_process(const Operator& op, const Problem& problem);
/// The outcome of the kept pins for this problem.
struct Kept {
  std::unique_ptr<Plan> plan;  // of the first that can serve; null: none
  bool of_problem = false;     // it names this problem, not the operator
  std::string passed_over;     // half a sentence on each before it; empty when there is none
};
Kept kept_choice(const Operator& op, const Problem& problem);

}  // namespace dlblas
