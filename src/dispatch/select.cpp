// Stage 3, select: a Problem becomes a Plan, from a lock-free map once it was decided.
// In: Problem. Out: implementation, configuration, and why: pin, store, shipped table, model,
// heuristic, in that order. Touches no data, compiles nothing, measures nothing. A decision holds
// until an event that could change it (a registration, a pin, a published result) bumps
// Operator::generation, and only while it is among the operator's kMaxPlans. Flow: call > validate
// > [select] > compile > launch.  Read next: dispatch/decide.cpp, dispatch/compile.cpp; the map is
// dispatch/plan_table.hpp.
#include <utility>

#include "core/counters.hpp"
#include "dispatch/decide.hpp"
#include "dispatch/dispatch.hpp"
#include "dispatch/missed.hpp"
#include "dispatch/plan_table.hpp"

namespace dlblas {
namespace {

OperatorPlans g_plans[Registry::kMaxOperators + 1];  // by Operator::id

// Decided outside the lock: reading the store may take a while, and it is harmless if two threads
// decide the same problem.
const Plan& decide_and_keep(const Operator& op, const Problem& problem, std::uint64_t hash,
                            std::uint32_t generation) {
  count(g_counters.selected);
  auto plan = decide(op, problem);
  note_missed(*plan);
  return g_plans[op.id].keep_plan(std::move(plan), hash, generation);
}

}  // namespace

const Plan& select(const Operator& op, const Problem& problem) {
  const std::uint32_t generation = op.generation.load(std::memory_order_acquire);
  const PlanTable* table = g_plans[op.id].table.load(std::memory_order_acquire);
  const std::uint64_t hash = problem.hash();
  if (table && table->generation == generation)
    if (const Plan* plan = table->find(problem, hash)) {
      if (!plan->used.load(std::memory_order_relaxed))
        plan->used.store(true, std::memory_order_relaxed);
      return *plan;
    }
  return decide_and_keep(op, problem, hash, generation);
}

void forget(const Operator& op) { op.invalidate(); }

}  // namespace dlblas
