// Host side of the hand-written norm kernels for NVIDIA GPUs, which complement those of the row
// programs: what their own files (norm_<kernel>_cuda.cpp) share. In: the positions of an operator's
// tensors in its schema. Out: its CUDA implementations. Flow: call > validate > [select] >
// [compile] > [launch]. Read next: ops/norm/cuda/norm_cuda.cpp, ops/norm/cuda/norm_ring_cuda.cpp.
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

// These take a Query about an implementation of a forward operator; its Implementation::user is a
// NormTensors:

/// The traits of a problem's kernels, except `full`.
NormCudaTraits traits_of(const Query& q);
/// Accesses per row.
std::int64_t accesses(const Query& q);
/// Requires a contiguous weight, and rows of contiguous elements at one stride per tensor.
Support supports_rows(const Query& q);
/// Bytes that a call has to read and write.
double bytes_of(const Query& q);
/// Milliseconds for `bytes` at copy rate, when the blocks that run at a time hold `concurrent`
/// rows; only ranks candidates before anything is measured.
double model_ms(const Query& q, double bytes, double concurrent);
/// The parameters of a call whose rows have one stride.
NormCudaParams params_of(const NormTensors& at, const Args& args);

/// Refuses calls that require the same bits in any batch: a kernel of the row program serves those.
Support has_other_bits(const Query& q);

/// Common to the forward kernels. Each waits for the preceding kernels before it touches memory, so
/// a dependent launch is always allowed. The preceding kernel may have written the weight, too (an
/// optimizer step, a cast): none of the caller's memory is read before that wait. 4096×4096 bf16 on
/// H200, 2026-11-21: 18.7 → 18.4 µs, 1×4096 1.7 → 1.3.
template <typename Config>
struct NormForm : kernels::CudaForm<NormCudaTraits, Config> {
  static constexpr bool kDependent = true;
  static const TraitsTable<NormCudaTraits>& traits_table() { return norm_traits_table(); }
  static NormCudaTraits traits(const Query& q, const Config&) { return traits_of(q); }
  static Support same_bits(const Query& q) { return has_other_bits(q); }
};

/// The positions of the tensors, for a call.
template <typename State>
const NormTensors& tensors_of(const State& state) {
  return *static_cast<const NormTensors*>(state.user);
}

/// A workspace for the sums of `rows` rows, each shared by `members` blocks. The part that is
/// zeroed before the launch comes first; its first 16 bytes belong to the kernel.
struct GridRowSumLayout {
  std::int64_t rows, members;
  std::int64_t arrived_at() const { return 16 + rows * 8; }
  std::int64_t parts_at() const { return (arrived_at() + rows * 4 + 15) / 16 * 16; }
  std::int64_t bytes() const { return parts_at() + rows * members * 8; }
  GridRowSum in(void* workspace) const;
};
/// Launches zero_fill, the first of a kernel's entries, on the workspace's first `bytes`.
int zero_workspace(std::int64_t bytes, const Kernel& kernel, const Context& context,
                   void* workspace, bool dependent);
KernelSource zero_fill_source();

// One file each; `tensors` must live as long as the process:
Implementation cuda_ring(const NormTensors& tensors);
Implementation cuda_split(const NormTensors& tensors);

}  // namespace dlblas::norm
