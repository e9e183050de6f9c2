// A plan's kernel, made once: the implementation's own preparing, and the JIT for what it names as
// sources (memory cache, disk cache, NVRTC). See prepare.hpp.  Read next: jit/jit.hpp.
#include "dispatch/prepare.hpp"

#include <optional>

#include "core/counters.hpp"
#include "dispatch/complain.hpp"
#include "jit/jit.hpp"

namespace dlblas {
namespace {

Kernel prepare(const Plan& plan, const DeviceInfo& device) {
  const Implementation& impl = *plan.implementation;
  const Query q{plan.problem, device, impl};
  Kernel kernel = impl.prepare(q, plan.config);
  kernel.implementation = &impl;
  if (!impl.sources) return kernel;
  int entry = 0;
  for (const KernelSource& source : impl.sources(q, plan.config))
    kernel.entries[entry++] = &jit::load(source, device);
  return kernel;
}

}  // namespace

const Kernel& prepare_and_keep(const Plan& plan, void* stream) {
  const DeviceInfo& device = device_info(plan.problem.device());
  std::optional<cuda::CurrentDevice> current;
  if (plan.problem.device_type == DeviceType::kCuda) {
    current.emplace(plan.problem.device_index);
    // Compiling and loading synchronise the device, which would break the caller's capture.
    if (cuda::capturing(stream))
      complain::cold_under_capture(Registry::process().by_id(plan.problem.op).schema.name,
                                   plan.implementation->name);
  }
  std::optional<cuda::RelaxedCapture> relaxed;
  if (current) relaxed.emplace();
  auto* kernel = new Kernel(prepare(plan, device));
  count(g_counters.prepared);
  // Another thread may have been first: its kernel is as good, and this one goes.
  const Kernel* first = nullptr;
  if (plan.kernel.compare_exchange_strong(first, kernel, std::memory_order_acq_rel)) return *kernel;
  if (kernel->release) kernel->release(*kernel);
  delete kernel;
  return *first;
}

}  // namespace dlblas
