// Stage 4, compile: a Plan becomes a Kernel, prepared once and kept with the plan.
// In: Plan. Out: Kernel. Reads no tensor. What needs a compiler goes through the JIT: memory cache,
// disk cache, NVRTC. Flow: call > validate > select > [compile] > launch.  Read next:
// dispatch/launch.cpp, jit/jit.hpp.
#include <optional>

#include "core/counters.hpp"
#include "core/error.hpp"
#include "dispatch/complain.hpp"
#include "dispatch/dispatch.hpp"
#include "jit/jit.hpp"

namespace dlblas {
namespace {

Kernel prepare(const Plan& plan, const DeviceInfo& device) {
  const Implementation& impl = *plan.implementation;
  Kernel kernel = impl.prepare(plan.problem, plan.config, device, impl);
  kernel.implementation = &impl;
  if (!impl.sources) return kernel;
  int entry = 0;
  for (const KernelSource& source : impl.sources(plan.problem, plan.config, device, impl))
    kernel.entries[entry++] = &jit::load(source, device);
  return kernel;
}

}  // namespace

const Kernel& compile(const Plan& plan, void* stream) {
  if (const Kernel* kernel = plan.kernel.load(std::memory_order_acquire)) return *kernel;
  const DeviceInfo& device = device_info(plan.problem.device());
  std::optional<cuda::CurrentDevice> current;
  if (plan.problem.device_type == DeviceType::kCuda) {
    current.emplace(plan.problem.device_index);
    // Compiling and loading synchronise the device, which would break the caller's capture.
    if (cuda::capturing(stream))
      complain::cold_under_capture(Registry::process().by_id(plan.problem.op).schema.name,
                                   plan.implementation->name);
  }
  auto* kernel = new Kernel(prepare(plan, device));
  count(g_counters.prepared);
  // Another thread may have been first: its kernel is as good, and this one goes.
  const Kernel* first = nullptr;
  if (plan.kernel.compare_exchange_strong(first, kernel, std::memory_order_acq_rel)) return *kernel;
  delete kernel;
  return *first;
}

}  // namespace dlblas
