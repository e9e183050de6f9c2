// Stage 3, select: a Problem becomes a Plan, from a lock-free map once it was decided.
// In: Problem. Out: implementation, configuration, and why: pin, store, shipped table, model,
// heuristic, in that order. Touches no data, compiles nothing, measures nothing. A decision holds
// until something that could change it happens (a registration, a pin, a published result): those
// bump Operator::generation. Flow: call > validate > [select] > compile > launch.  Read next:
// dispatch/decide.cpp, dispatch/compile.cpp.
#include <memory>
#include <mutex>

#include "core/counters.hpp"
#include "core/error.hpp"
#include "dispatch/decide.hpp"
#include "dispatch/dispatch.hpp"

namespace dlblas {
namespace {

// Open addressing over immutable plans. Readers take no lock: they load one table pointer and
// probe; a full table is replaced by one twice as large.
struct PlanTable {
  std::uint32_t generation;
  std::uint32_t mask;
  std::uint32_t used = 0;
  std::unique_ptr<std::atomic<const Plan*>[]> slots;
  PlanTable* previous = nullptr;  // replaced, and kept: a reader may still hold it

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
  std::atomic<PlanTable*> table{nullptr};
  std::mutex mutex;  // writers only
};
Shelf g_shelves[Registry::kMaxOperators + 1];  // by Operator::id

// A table of this generation with room for one more plan; the shelf's mutex is held.
PlanTable& table_for_insert(Shelf& shelf, std::uint32_t generation) {
  PlanTable* table = shelf.table.load(std::memory_order_relaxed);
  if (table && table->generation == generation && table->used * 2 <= table->mask) return *table;
  const bool grow = table && table->generation == generation;
  auto* larger = new PlanTable(generation, grow ? (table->mask + 1) * 2 : 64);
  if (grow)
    for (std::uint32_t i = 0; i <= table->mask; ++i)
      if (const Plan* plan = table->slots[i].load(std::memory_order_relaxed))
        larger->insert(plan, plan->problem.hash());
  if (table && static_cast<std::int32_t>(table->generation - generation) > 0) {
    larger->previous = table->previous;  // a decision from before the newer map: kept aside
    table->previous = larger;
    return *larger;
  }
  larger->previous = table;
  shelf.table.store(larger, std::memory_order_release);
  return *larger;
}

// Decided outside the lock: reading the store may take a while, and two threads deciding the same
// is harmless.
const Plan& decide_and_keep(const Operator& op, const Problem& problem, std::uint64_t hash,
                            std::uint32_t generation) {
  count(g_counters.selected);
  auto decided = decide(op, problem);
  Shelf& shelf = g_shelves[op.id];
  std::lock_guard lock(shelf.mutex);
  PlanTable& table = table_for_insert(shelf, generation);
  if (const Plan* known = table.find(problem, hash)) return *known;
  table.insert(decided.get(), hash);
  return *decided.release();
}

}  // namespace

const Plan& select(const Operator& op, const Problem& problem) {
  const std::uint32_t generation = op.generation.load(std::memory_order_acquire);
  const PlanTable* table = g_shelves[op.id].table.load(std::memory_order_acquire);
  const std::uint64_t hash = problem.hash();
  if (table && table->generation == generation)
    if (const Plan* plan = table->find(problem, hash)) return *plan;
  return decide_and_keep(op, problem, hash, generation);
}

void forget(const Operator& op) { op.generation.fetch_add(1, std::memory_order_release); }

}  // namespace dlblas
