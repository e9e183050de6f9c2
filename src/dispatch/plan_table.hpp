// The fast map of one operator: Problem to Plan. Readers take no lock: they load one table pointer
// and probe. In: decisions. Out: at most kMaxPlans of them; a replaced one is freed when no call
// can hold it. Flow: call > validate > [select] > compile > launch.  Read next: core/in_flight.hpp.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "dispatch/dispatch.hpp"

namespace dlblas {

// Open addressing over immutable plans; a full table is replaced by a new one.
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

/// The maps of one operator, of which one is current.
struct OperatorPlans {
  std::atomic<const PlanTable*> table{nullptr};
  std::mutex mutex;  // writers only

  /// Keeps a decision of this generation, unless the map has one of the same problem or is of a
  /// newer generation. Returns the plan that serves. Call only while in flight.
  const Plan& keep_plan(std::unique_ptr<const Plan> decided, std::uint64_t hash,
                        std::uint32_t generation);
};

}  // namespace dlblas
