// Host side of the norm kernels on NVIDIA GPUs: what rms_norm and add_rms_norm, and the kernels'
// own files (norm_<kernel>_cuda.cpp), share. In: where an operator's tensors stand in its schema.
// Out: its CUDA implementations. Flow: call > validate > [select] > [compile] > [launch].
// Read next: ops/norm/norm_cuda.cpp, ops/norm/norm_registers_cuda.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/implementation.hpp"
#include "cuda/cuda.hpp"
#include "ops/norm/norm_cuda_config.hpp"
#include "ops/norm/norm_ops.hpp"

namespace dlblas::norm {

/// One kernel as a candidate of both operators: an Implementation whose functions also get the
/// tensors' positions.
struct CudaKernel {
  const char* name;
  std::int32_t min_arch;
  const char* source_hash;
  const KnobTable* knobs;
  Support (*supports)(const Slots&, const Problem&, const DeviceInfo&);
  void (*constrain)(const Slots&, const Problem&, const DeviceInfo&, Space&);
  Config (*heuristic)(const Slots&, const Problem&, const DeviceInfo&);
  double (*estimate)(const Slots&, const Problem&, const Config&, const DeviceInfo&);
  Kernel (*prepare)(const Slots&, const Problem&, const Config&, const DeviceInfo&);
  std::vector<KernelSource> (*sources)(const Slots&, const Problem&, const Config&,
                                       const DeviceInfo&);
};
// One file each.
const CudaKernel& cuda_registers();
const CudaKernel& cuda_cluster();
const CudaKernel& cuda_shared();
const CudaKernel& cuda_rows();
const CudaKernel& cuda_ring();
const CudaKernel& cuda_split();
const CudaKernel& cuda_strided();

/// Programmatic dependent launch (device/pdl.cuh): every kernel waits for the ones before it before
/// it touches memory, so it can always be asked for. The weight, too, may be the work of the kernel
/// before (an optimizer's step, a cast): nothing of the caller's is read ahead of that wait.
/// 4096×4096 bf16 on H200, 2026-11-21: 18.7 → 18.4 µs, 1×4096 1.7 → 1.3.
inline bool can_depend(const DeviceInfo& device) { return device.arch >= 90; }

/// The traits of a problem's kernels, but for `full`.
NormCudaTraits traits_of(const Slots& slots, const Problem& problem);
/// As a C++ value, for the JIT.
std::string literal(const NormCudaTraits& traits);
/// Accesses of one row.
std::int64_t accesses(const Slots& slots, const Problem& problem);
/// Contiguous weight, and rows at one stride each with contiguous elements.
Support supports_rows(const Slots& slots, const Problem& problem);
/// Bytes that a call has to read and write, but for the weight.
double bytes_of(const Slots& slots, const Problem& problem);
/// May a configuration have what it reads leave L2 last? What it writes then leaves first, in long
/// runs: add_rms_norm 16384×8192 takes 250 µs for 260, a copy 256 (bf16, H200, 2026-11-22). But who
/// comes after finds less of y there, and pays 1 to 4 µs; so only where a call of the bucket's most
/// rows moves eight times what L2 holds. Rows of less than 256 accesses gain nothing.
bool may_be_last(const Slots& slots, const Problem& problem, const DeviceInfo& device);
/// Milliseconds for `bytes` at the rate of a copy, where blocks that hold `concurrent` rows work at
/// a time; it only ranks candidates before anything is measured.
double model_ms(double bytes, const Problem& problem, double concurrent, const DeviceInfo& device);
/// The parameters of a call whose rows are at one stride.
NormCudaParams params_of(const Slots& slots, const Args& args);

/// Where `members` blocks meet over each of `rows` rows, in a workspace: what is zero before the
/// launch lies first; its first 16 bytes are the kernel's own.
struct MeetingLayout {
  std::int64_t rows, members;
  std::int64_t arrived_at() const { return 16 + rows * 8; }
  std::int64_t parts_at() const { return (arrived_at() + rows * 4 + 15) / 16 * 16; }
  std::int64_t bytes() const { return parts_at() + rows * members * 8; }
  NormMeeting in(void* workspace) const;
};
/// Launches norm_clear, the first of a kernel's entries, on the workspace's first `bytes`.
int clear_workspace(std::int64_t bytes, const Kernel& kernel, const Context& context,
                    void* workspace, bool dependent);
KernelSource clear_source();

/// The least of the values that `vectors` may have for `threads` threads to hold `accesses`; 0 when
/// none does.
std::int32_t vectors_for(std::int64_t accesses, std::int64_t threads);
/// The domain of `vectors` where a thread holds them in registers.
inline constexpr std::int32_t kVectors[] = {1, 2, 3, 4, 6, 8, 12, 16};

/// Where a call asks for the same bits in any batch (kDeterministic), one kernel and one
/// configuration serve a width: those that this problem gets, which has a fixed number of rows.
Problem typical(const Problem& problem);
/// The kernel that serves it: the first of those that take whatever number of rows there is.
const CudaKernel& same_bits_kernel(const Slots& slots, const Problem& problem,
                                   const DeviceInfo& device);
/// Leaves the configuration that it gets.
void require_typical(const Slots& slots, const Problem& problem, const DeviceInfo& device,
                     const CudaKernel& kernel, Space& space);

/// The Implementation of a kernel for the operator whose tensors stand at kSlots.
template <const Slots& kSlots, const CudaKernel& (*kKernel)()>
Implementation cuda_implementation() {
  const CudaKernel& kernel = kKernel();
  Implementation impl;
  impl.name = kernel.name;
  impl.backend = DeviceType::kCuda;
  impl.min_arch = kernel.min_arch;
  impl.source_hash = kernel.source_hash;
  impl.flags = {.deterministic = true, .capturable = true};
  impl.knobs = kernel.knobs;
  impl.supports = [](const Problem& problem, const DeviceInfo& device, const Implementation&) {
    return kKernel().supports(kSlots, problem, device);
  };
  impl.same_bits = [](const Problem& problem, const DeviceInfo& device, const Implementation&) {
    if (&same_bits_kernel(kSlots, problem, device) == &kKernel()) return Support::yes();
    return Support::no(
        "adds up in another order than the kernel that serves this width in any batch");
  };
  if (kernel.constrain) {
    impl.constrain = [](const Problem& problem, const DeviceInfo& device, Space& space) {
      if (problem.flags & kDeterministic)
        return require_typical(kSlots, problem, device, kKernel(), space);
      kKernel().constrain(kSlots, problem, device, space);
    };
    impl.heuristic = [](const Problem& problem, const DeviceInfo& device) {
      const bool any_batch = problem.flags & kDeterministic;
      return kKernel().heuristic(kSlots, any_batch ? typical(problem) : problem, device);
    };
  }
  impl.estimate = [](const Problem& problem, const Config& config, const DeviceInfo& device,
                     const Implementation&) {
    return kKernel().estimate(kSlots, problem, config, device);
  };
  impl.prepare = [](const Problem& problem, const Config& config, const DeviceInfo& device,
                    const Implementation& self) {
    Kernel prepared = kKernel().prepare(kSlots, problem, config, device);
    prepared.implementation = &self;
    return prepared;
  };
  impl.sources = [](const Problem& problem, const Config& config, const DeviceInfo& device,
                    const Implementation&) {
    return kKernel().sources(kSlots, problem, config, device);
  };
  return impl;
}

/// Every CUDA implementation of the operator whose tensors stand at kSlots, best guess first.
template <const Slots& kSlots>
std::vector<Implementation> cuda_implementations() {
  return {
      cuda_implementation<kSlots, cuda_registers>(), cuda_implementation<kSlots, cuda_ring>(),
      cuda_implementation<kSlots, cuda_cluster>(),   cuda_implementation<kSlots, cuda_shared>(),
      cuda_implementation<kSlots, cuda_split>(),     cuda_implementation<kSlots, cuda_rows>(),
      cuda_implementation<kSlots, cuda_strided>(),
  };
}

/// Defined in <op>_cuda.cpp.
std::vector<Implementation> rms_norm_cuda();
std::vector<Implementation> add_rms_norm_cuda();

}  // namespace dlblas::norm
