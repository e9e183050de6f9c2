// Host side of the norm kernels on CPUs: what rms_norm and add_rms_norm share. In: where an
// operator's tensors stand in its schema. Out: its CPU implementations, fastest level first. Flow:
// call > validate > [select] > [compile] > [launch]. Read next: ops/norm/cpu/norm_cpu.cpp
// (deciding), ops/norm/cpu/norm_rows_cpu.cpp (running).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu_level.hpp"
#include "ops/norm/cpu/norm_config.hpp"
#include "ops/norm/norm_ops.hpp"

namespace dlblas::norm {

/// Code of an instruction-set level.
struct NormLevel {
  NormPasses (*passes)(const NormTraits&, const NormConfig&);
};

/// What `prepare` leaves for the calls.
struct State {
  const NormTensors* tensors;
  NormPasses passes;
  NormConfig config;
  std::int64_t grain;  // rows a task
  bool cast;
};

/// norm_rows_cpu.cpp. One call: rows in parallel, each from first to last by one thread.
int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace);

/// Is the last dimension of a tensor with this layout not contiguous?
bool rows_are_strided(Layout layout);

/// The CPU implementations of the operator whose tensors stand there. `tensors` lives as long as
/// the process.
std::vector<Implementation> norm_cpu(const NormTensors& tensors);

}  // namespace dlblas::norm
