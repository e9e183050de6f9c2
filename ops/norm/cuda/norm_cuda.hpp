// Host side of the norm kernels on NVIDIA GPUs: what rms_norm and add_rms_norm, and the kernels'
// own files (norm_<kernel>_cuda.cpp), share. In: where an operator's tensors stand in its schema.
// Out: its CUDA implementations. Flow: call > validate > [select] > [compile] > [launch].
// Read next: ops/norm/cuda/norm_cuda.cpp, ops/norm/cuda/norm_registers_cuda.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda_form.hpp"
#include "ops/norm/cuda/norm_cuda_config.hpp"
#include "ops/norm/norm_ops.hpp"

namespace dlblas::norm {

/// The members of NormCudaTraits, for the JIT.
const TraitsTable<NormCudaTraits>& norm_traits_table();

// Of a Query about an implementation of a forward operator; Implementation::user is its
// NormTensors:

/// The traits of a problem's kernels, but for `full`.
NormCudaTraits traits_of(const Query& q);
/// Accesses of one row.
std::int64_t accesses(const Query& q);
/// Contiguous weight, and rows at one stride each with contiguous elements.
Support supports_rows(const Query& q);
/// Bytes that a call has to read and write, but for the weight.
double bytes_of(const Query& q);
/// May loads use the L2 evict_last policy? What a kernel writes then leaves first, in long runs:
/// add_rms_norm 16384×8192 takes 250 µs for 260, a copy 256 (bf16, H200, 2026-11-22). But the next
/// kernel finds less of y there, and pays 1 to 4 µs; so only where a call of the bucket's most rows
/// moves eight times what L2 holds. Rows of less than 256 accesses gain nothing.
bool may_be_last(const Query& q);
/// Milliseconds for `bytes` at the rate of a copy, where blocks that hold `concurrent` rows work at
/// a time; it only ranks candidates before anything is measured.
double model_ms(const Query& q, double bytes, double concurrent);
/// The parameters of a call whose rows are at one stride.
NormCudaParams params_of(const NormTensors& at, const Args& args);

/// Where a call asks for the same bits in any batch (kDeterministic), one kernel and one
/// configuration serve a width: those that this problem gets, which has a fixed number of rows.
Problem typical_rows(const Problem& problem);
/// Is this the kernel that serves it: the first of those that take whatever number of rows there
/// is?
Support serves_any_batch(const Query& q);

/// What the forward kernels have in common. Each waits for the kernels before it before it touches
/// memory, so a dependent launch can always be asked for. The weight, too, may be the work of the
/// kernel before (an optimizer's step, a cast): nothing of the caller's is read ahead of that wait.
/// 4096×4096 bf16 on H200, 2026-11-21: 18.7 → 18.4 µs, 1×4096 1.7 → 1.3.
template <typename Config>
struct NormForm : kernels::CudaForm<NormCudaTraits, Config> {
  static constexpr bool kDependent = true;
  static const TraitsTable<NormCudaTraits>& traits_table() { return norm_traits_table(); }
  static NormCudaTraits traits(const Query& q, const Config&) { return traits_of(q); }
  static Support same_bits(const Query& q) { return serves_any_batch(q); }
  static Problem typical(const Problem& problem) { return typical_rows(problem); }
};

/// Where the tensors stand, for a call.
template <typename State>
const NormTensors& tensors_of(const State& state) {
  return *static_cast<const NormTensors*>(state.user);
}

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

// One file each:
Implementation cuda_registers(const NormTensors& tensors);
Implementation cuda_cluster(const NormTensors& tensors);
Implementation cuda_shared(const NormTensors& tensors);
Implementation cuda_rows(const NormTensors& tensors);
Implementation cuda_ring(const NormTensors& tensors);
Implementation cuda_split(const NormTensors& tensors);
Implementation cuda_strided(const NormTensors& tensors);

/// Every CUDA implementation of the operator whose tensors stand there, best guess first. `tensors`
/// lives as long as the process.
std::vector<Implementation> norm_cuda(const NormTensors& tensors);

}  // namespace dlblas::norm
