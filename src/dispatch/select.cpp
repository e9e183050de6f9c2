// Stage 3, select: a Problem becomes a Plan, from a lock-free map once it was decided.
// In: Problem. Out: implementation, configuration, and why: pin, store, shipped table, model,
// heuristic, in that order. Touches no data, compiles nothing, measures nothing. A decision holds
// until something that could change it happens (a registration, a pin, a published result): those
// bump Operator::generation; and while it is among the operator's kMostPlans. Flow: call > validate
// > [select] > compile > launch.  Read next: dispatch/decide.cpp, dispatch/compile.cpp.
#include <memory>
#include <mutex>
#include <vector>

#include "core/counters.hpp"
#include "core/error.hpp"
#include "core/in_flight.hpp"
#include "dispatch/decide.hpp"
#include "dispatch/dispatch.hpp"

namespace dlblas {
namespace {

// Open addressing over immutable plans. Readers take no lock: they load one table pointer and
// probe; a full table is replaced by another one, and freed when no call can be probing it.
struct PlanTable {
  std::uint32_t generation;
  std::uint32_t mask;
  std::uint32_t used = 0;
  std::unique_ptr<std::atomic<const Plan*>[]> slots;

  PlanTable(std::uint32_t of_generation, std::uint32_t capacity)
      : generation(of_generation),
        mask(capacity - 1),
        slots(new std::atomic<const Plan*>[capacity] {}) {}

  const Plan* find(const Problem& problem, std::uint64_t hash) const {
    for (std::uint64_t i = hash;; ++i) {
      const Plan* plan = slots[i & mask].load(std::memory_order_acquire);
      if (!plan || plan->problem == problem) return plan;
    }
  }
  void insert(const Plan* plan, std::uint64_t hash) {
    std::uint64_t i = hash;
    while (slots[i & mask].load(std::memory_order_relaxed)) ++i;
    slots[i & mask].store(plan, std::memory_order_release);
    ++used;
  }
};

struct Shelf {
  std::atomic<const PlanTable*> table{nullptr};
  std::mutex mutex;  // writers only
};
Shelf g_shelves[Registry::kMaxOperators + 1];  // by Operator::id

// What a call has replaced: freed when no other call can hold it.
struct Replaced {
  std::unique_ptr<const PlanTable> table = {};
  std::vector<std::unique_ptr<const Plan>> plans = {};
};

// The next table of a shelf, with room for one more plan. What another generation decided goes. A
// table of kMostPlans keeps those that a call has used since the last time, and half of them at
// most: the others are decided again when they are asked for.
std::unique_ptr<PlanTable> next_table(const PlanTable* before, std::uint32_t generation,
                                      Replaced& replaced) {
  const bool same = before && before->generation == generation;
  const bool full = same && before->used >= kMostPlans;
  const std::uint32_t capacity = !same ? 64 : full ? before->mask + 1 : (before->mask + 1) * 2;
  auto next = std::make_unique<PlanTable>(generation, capacity);
  for (std::uint32_t i = 0; before && i <= before->mask; ++i) {
    const Plan* plan = before->slots[i].load(std::memory_order_relaxed);
    if (!plan) continue;
    const bool stays = same && (!full || (next->used < kMostPlans / 2 &&
                                          plan->used.exchange(false, std::memory_order_relaxed)));
    if (stays)
      next->insert(plan, plan->problem.hash());
    else
      replaced.plans.emplace_back(plan);
  }
  replaced.table.reset(before);
  return next;
}

// Decided outside the lock: reading the store may take a while, and two threads deciding the same
// is harmless.
const Plan& decide_and_keep(const Operator& op, const Problem& problem, std::uint64_t hash,
                            std::uint32_t generation) {
  count(g_counters.selected);
  std::unique_ptr<const Plan> decided = decide(op, problem);
  const Plan* served = decided.get();
  auto replaced = std::make_unique<Replaced>();
  {
    Shelf& shelf = g_shelves[op.id];
    const std::lock_guard lock(shelf.mutex);
    auto* table = const_cast<PlanTable*>(shelf.table.load(std::memory_order_relaxed));
    const bool older = table && static_cast<std::int32_t>(table->generation - generation) > 0;
    const bool current = table && table->generation == generation;
    const Plan* known = current ? table->find(problem, hash) : nullptr;
    if (known || older) {  // from before the newer map: for this call alone
      if (known) served = known;
      replaced->plans.push_back(std::move(decided));
    } else {
      if (!current || table->used * 2 > table->mask || table->used >= kMostPlans) {
        table = next_table(table, generation, *replaced).release();
        shelf.table.store(table, std::memory_order_release);
      }
      table->insert(decided.release(), hash);
    }
  }
  if (replaced->table || !replaced->plans.empty()) retire(replaced.release());
  return *served;
}

}  // namespace

const Plan& select(const Operator& op, const Problem& problem) {
  const std::uint32_t generation = op.generation.load(std::memory_order_acquire);
  const PlanTable* table = g_shelves[op.id].table.load(std::memory_order_acquire);
  const std::uint64_t hash = problem.hash();
  if (table && table->generation == generation)
    if (const Plan* plan = table->find(problem, hash)) {
      if (!plan->used.load(std::memory_order_relaxed))
        plan->used.store(true, std::memory_order_relaxed);
      return *plan;
    }
  return decide_and_keep(op, problem, hash, generation);
}

void forget(const Operator& op) { op.generation.fetch_add(1, std::memory_order_release); }

}  // namespace dlblas
