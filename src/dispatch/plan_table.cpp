// See plan_table.hpp.
#include "dispatch/plan_table.hpp"

#include <vector>

#include "core/in_flight.hpp"

namespace dlblas {
namespace {

// What a call has replaced; freed once no other call can hold it.
struct Replaced {
  std::unique_ptr<const PlanTable> table = {};
  std::vector<std::unique_ptr<const Plan>> plans = {};
};

// The next table, with room for one more plan. Plans of another generation are dropped. A table of
// kMaxPlans keeps only the plans that a call has found again since the last rebuild, and at most
// kMaxPlans / 2 of them; the others are decided again when they are needed.
std::unique_ptr<PlanTable> next_table(const PlanTable* before, std::uint32_t generation,
                                      Replaced& replaced) {
  const bool same = before && before->generation == generation;
  const bool full = same && before->used >= kMaxPlans;
  const std::uint32_t capacity = !same ? 64 : full ? before->mask + 1 : (before->mask + 1) * 2;
  auto next = std::make_unique<PlanTable>(generation, capacity);
  for (std::uint32_t i = 0; before && i <= before->mask; ++i) {
    const Plan* plan = before->slots[i].load(std::memory_order_relaxed);
    if (!plan) continue;
    const bool stays = same && (!full || (next->used < kMaxPlans / 2 &&
                                          plan->used.exchange(false, std::memory_order_relaxed)));
    if (stays)
      next->insert(plan, plan->problem.hash());
    else
      replaced.plans.emplace_back(plan);
  }
  replaced.table.reset(before);
  return next;
}

}  // namespace

const Plan& OperatorPlans::keep_plan(std::unique_ptr<const Plan> decided, std::uint64_t hash,
                                     std::uint32_t generation) {
  const Plan* served = decided.get();
  auto replaced = std::make_unique<Replaced>();
  {
    const std::lock_guard lock(mutex);
    auto* now = const_cast<PlanTable*>(table.load(std::memory_order_relaxed));
    const bool older = now && static_cast<std::int32_t>(now->generation - generation) > 0;
    const bool current = now && now->generation == generation;
    const Plan* known = current ? now->find(decided->problem, hash) : nullptr;
    if (known || older) {  // from before the newer map: for this call alone
      if (known) served = known;
      replaced->plans.push_back(std::move(decided));
    } else {
      if (!current || now->used * 2 > now->mask || now->used >= kMaxPlans) {
        now = next_table(now, generation, *replaced).release();
        table.store(now, std::memory_order_release);
      }
      now->insert(decided.release(), hash);
    }
  }
  if (replaced->table || !replaced->plans.empty()) retire(replaced.release());
  return *served;
}

}  // namespace dlblas
