// Host side of the norm kernels on CPUs: what rms_norm and add_rms_norm share, and the levels that
// rms_norm_backward uses too. In: where an operator's tensors stand in its schema. Out: its CPU
// implementations, fastest level first. Flow: call > validate > [select] > [compile] > [launch].
// Read next: ops/norm/cpu/norm_cpu.cpp (deciding), ops/norm/cpu/norm_rows_cpu.cpp (running).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu_level.hpp"
#include "ops/norm/cpu/norm_config.hpp"
#include "ops/norm/norm_ops.hpp"
#include "ops/norm/rms_norm_backward/rms_norm_backward_config.hpp"

namespace dlblas::norm {

/// Code of an instruction-set level, and the bytes a thread reads and writes each second, which
/// only rank candidates before anything is measured: rms_norm f32 512×4096 (cache) and 16384×4096
/// (memory), and the most where f16 is converted (512×4096), which the baseline does one by one.
/// AMD Zen 4, 2 threads, November 2026.
struct NormLevel {
  NormPasses (*passes)(const NormTraits&, const NormConfig&);
  BackwardPasses (*backward_passes)(const BackwardTraits&, const BackwardConfig&);
  double cache_rate, memory_rate, f16_rate;
};
/// One implementation per level of this build, fastest first; their code is a NormLevel.
std::vector<Implementation> norm_levels(const Implementation& base,
                                        const NormTensors* tensors = nullptr);
/// What a thread reads and writes: ranks candidates before anything is measured.
double bytes_per_second(const NormLevel& level, DType dtype, bool cached);

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
