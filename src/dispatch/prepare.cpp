// A plan's kernel, prepared once: the implementation's own `prepare`, and the JIT for its `sources`
// (memory cache, disk cache, NVRTC). See prepare.hpp.  Read next: jit/jit.hpp.
#include "dispatch/prepare.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "core/absent_device.hpp"
#include "core/counters.hpp"
#include "core/error.hpp"
#include "dispatch/errors.hpp"
#include "dispatch/nested.hpp"
#include "jit/jit.hpp"

namespace dlblas {
namespace {

// A wrong count from an implementation would make us read past an array, or write past the
// workspace.
void require(bool right, const Plan& plan, const std::string& expected, std::size_t got) {
  if (right) return;
  const Implementation& impl = *plan.implementation;
  const std::string& op = Registry::process().by_id(plan.problem.op).schema.name;
  throw Error(ErrorKind::kInternal,
              text(op, ": ", impl.name, " prepared a kernel that cannot be; expected ", expected,
                   ", got ", got),
              {.op = op, .argument = impl.name, .expected = expected, .got = text(got)});
}

// On a GPU in stream order, and so captured into a graph.
int zero_workspace(const Args&, const Context& context, const Kernel& kernel, void* workspace) {
  if (context.device.type == DeviceType::kCuda)
    cuda::fill_bytes(workspace, 0, kernel.zeroed_bytes, context.stream);
  else
    std::memset(workspace, 0, kernel.zeroed_bytes);
  return 0;
}

// Zeroing becomes the first step.
void add_zeroing(const Plan& plan, Kernel& kernel) {
  const bool zeroes = kernel.zeroed_bytes > 0;
  require(kernel.num_steps + zeroes <= Kernel::kMaxSteps, plan,
          text("at most ", Kernel::kMaxSteps, " steps, zeroing among them"),
          static_cast<std::size_t>(kernel.num_steps + zeroes));
  require(kernel.zeroed_bytes <= kernel.workspace_bytes, plan,
          text("at most the workspace's ", kernel.workspace_bytes, " zeroed bytes"),
          kernel.zeroed_bytes);
  if (!zeroes) return;
  std::copy_backward(kernel.steps, kernel.steps + kernel.num_steps,
                     kernel.steps + kernel.num_steps + 1);
  kernel.steps[0] = zero_workspace;
  ++kernel.num_steps;
}

// Parts run one at a time, so they share one region after the whole's own.
void add_parts(const Query& q, const Config& config, void* stream, Prepared& prepared) {
  if (!q.self.parts) return;
  constexpr std::size_t kAlign = 256;  // cuBLASLt refuses a workspace that begins elsewhere
  const std::size_t own = (prepared.kernel.workspace_bytes + kAlign - 1) / kAlign * kAlign;
  std::size_t most = 0;
  prepared.parts = prepare_parts(q, config, stream, own, &most, &prepared.capturable);
  prepared.kernel.parts = prepared.parts.data();
  prepared.kernel.num_parts = static_cast<std::int32_t>(prepared.parts.size());
  if (most > 0) prepared.kernel.workspace_bytes = own + most;
}

std::unique_ptr<Prepared> prepare(const Plan& plan, const DeviceInfo& device, void* stream) {
  const Implementation& impl = *plan.implementation;
  const Query q{plan.problem, device, impl};
  auto prepared = std::make_unique<Prepared>();
  Kernel& kernel = prepared->kernel;
  kernel = impl.prepare(q, plan.config);
  kernel.implementation = &impl;
  add_zeroing(plan, kernel);
  add_parts(q, plan.config, stream, *prepared);
  if (plan.problem.device_type == DeviceType::kCuda) prepared->capturable &= impl.flags.capturable;
  if (!impl.sources) return prepared;
  const auto sources = impl.sources(q, plan.config);
  require(sources.size() <= Kernel::kMaxEntries, plan,
          text("at most ", Kernel::kMaxEntries, " entries"), sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i)
    kernel.entries[i] = &jit::load(sources[i], device);
  return prepared;
}

const Kernel& prepare_and_keep(const Plan& plan, void* stream) {
  require_present(plan.problem.device());
  const DeviceInfo& device = device_info(plan.problem.device());
  std::optional<cuda::CurrentDevice> current;
  if (plan.problem.device_type == DeviceType::kCuda) {
    current.emplace(plan.problem.device_index);
    // Compiling and loading synchronise the device, which would break the caller's capture.
    if (cuda::capturing(stream))
      errors::cold_under_capture(Registry::process().by_id(plan.problem.op).schema.name,
                                 plan.implementation->name);
  }
  std::optional<cuda::RelaxedCapture> relaxed;
  if (current) relaxed.emplace();
  std::unique_ptr<const Prepared> made = prepare(plan, device, stream);
  count(g_counters.prepared);
  // If another thread was first, keep its kernel and drop ours.
  const Prepared* first = nullptr;
  if (plan.prepared.compare_exchange_strong(first, made.get(), std::memory_order_acq_rel))
    first = made.release();
  return first->kernel;
}

}  // namespace

Problem for_capture(Problem problem) {
  problem.flags |= kCapturing;
  return problem;
}

const Kernel& compile_cold(const Plan& plan, void* stream) {
  const Prepared* prepared = plan.prepared.load(std::memory_order_acquire);
  const bool capturable = prepared ? prepared->capturable : plan.implementation->flags.capturable;
  if (!capturable && plan.problem.device_type == DeviceType::kCuda && cuda::capturing(stream))
    return compile(select(Registry::process().by_id(plan.problem.op), for_capture(plan.problem)),
                   stream);
  return prepared ? prepared->kernel : prepare_and_keep(plan, stream);
}

}  // namespace dlblas
