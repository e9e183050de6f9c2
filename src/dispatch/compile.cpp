// Stage 4, compile: a Plan becomes a Kernel, prepared once and kept with the plan.
// In: Plan. Out: Kernel. Reads no tensor. The JIT docks inside `prepare`: memory cache, disk cache,
// NVRTC. Flow: call > validate > select > [compile] > launch.  Read next: dispatch/launch.cpp.
#include "core/counters.hpp"
#include "dispatch/dispatch.hpp"

namespace dlblas {

const Kernel& compile(const Plan& plan) {
  if (const Kernel* kernel = plan.kernel.load(std::memory_order_acquire)) return *kernel;
  const Implementation& impl = *plan.implementation;
  auto* kernel =
      new Kernel(impl.prepare(plan.problem, plan.config, device_info(plan.problem.device()), impl));
  kernel->implementation = &impl;
  count(g_counters.prepared);
  // Another thread may have been first: its kernel is as good, and this one goes.
  const Kernel* first = nullptr;
  if (plan.kernel.compare_exchange_strong(first, kernel, std::memory_order_acq_rel)) return *kernel;
  delete kernel;
  return *first;
}

}  // namespace dlblas
