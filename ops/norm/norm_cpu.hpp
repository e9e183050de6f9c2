// Host side of the norm kernels on CPUs: what rms_norm and add_rms_norm share.
// In: where an operator's tensors stand in its schema. Out: its CPU implementations, fastest level
// first. Flow: call > validate > [select] > [compile] > [launch].  Read next:
// ops/norm/norm_cpu.cpp (deciding),
// ops/norm/norm_rows_cpu.cpp (running).
#pragma once

#include <cstdint>
#include <vector>

#include "core/implementation.hpp"
#include "ops/norm/norm_config.hpp"
#include "ops/norm/norm_ops.hpp"

namespace dlblas::norm {

Support supports(const Slots& slots, const Problem& problem, const DeviceInfo& device,
                 const Implementation& self);
void constrain(const Slots& slots, const Problem& problem, Space& space);
Config heuristic(const Slots& slots, const Problem& problem, const DeviceInfo& device);
double estimate(const Slots& slots, const Problem& problem, const Config& config,
                const DeviceInfo& device, const Implementation& self);
/// One step, `run`, and its state.
Kernel prepare(const Slots& slots, const Problem& problem, const Config& config,
               const Implementation& self);
/// What `prepare` leaves for the calls.
struct State {
  const Slots* slots;
  NormPasses passes;
  NormConfig config;
  std::int64_t grain;  // rows a task
  bool cast;
};

/// norm_rows_cpu.cpp. One call: rows in parallel, each from first to last by one thread.
int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace);

/// Name, level, hash, flags and knobs of every level this build has, fastest first; no functions
/// yet.
std::vector<Implementation> levels();
// Of an implementation that levels() gave:
/// Does the CPU run its level?
Support supports_level(const DeviceInfo& device, const Implementation& self);
Isa isa_of(const Implementation& self);
/// Under kDeterministic: the widest level that the CPU runs. Each level has lanes of its own.
Support same_bits(const Problem& problem, const DeviceInfo& device, const Implementation& self);
/// What a thread reads and writes: ranks candidates before anything is measured.
double bytes_per_second(const Implementation& self, DType dtype, bool cached);

/// Is the last dimension of a tensor with this layout not contiguous?
bool rows_are_strided(Layout layout);

/// The CPU implementations of the operator whose tensors stand at kSlots.
template <const Slots& kSlots>
std::vector<Implementation> implementations() {
  std::vector<Implementation> all = levels();
  for (Implementation& impl : all) {
    impl.supports = [](const Problem& problem, const DeviceInfo& device,
                       const Implementation& self) {
      return supports(kSlots, problem, device, self);
    };
    impl.constrain = [](const Problem& problem, const DeviceInfo&, Space& space) {
      constrain(kSlots, problem, space);
    };
    impl.heuristic = [](const Problem& problem, const DeviceInfo& device) {
      return heuristic(kSlots, problem, device);
    };
    impl.estimate = [](const Problem& problem, const Config& config, const DeviceInfo& device,
                       const Implementation& self) {
      return estimate(kSlots, problem, config, device, self);
    };
    impl.prepare = [](const Problem& problem, const Config& config, const DeviceInfo&,
                      const Implementation& self) {
      return prepare(kSlots, problem, config, self);
    };
  }
  return all;
}

/// Defined in <op>_cpu.cpp.
std::vector<Implementation> rms_norm_cpu();
std::vector<Implementation> add_rms_norm_cpu();

}  // namespace dlblas::norm
