// Host side of the norm kernels that are made by hand for NVIDIA GPUs, beside those of the row
// programs: what their own files (norm_<kernel>_cuda.cpp) share. In: where an operator's tensors
// stand in its schema. Out: its CUDA implementations. Flow: call > validate > [select] > [compile]
// > [launch]. Read next: ops/norm/cuda/norm_cuda.cpp, ops/norm/cuda/norm_ring_cuda.cpp.
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
/// Bytes that a call has to read and write.
double bytes_of(const Query& q);
/// Milliseconds for `bytes` at the rate of a copy, where blocks that hold `concurrent` rows work at
/// a time; it only ranks candidates before anything is measured.
double model_ms(const Query& q, double bytes, double concurrent);
/// The parameters of a call whose rows are at one stride.
NormCudaParams params_of(const NormTensors& at, const Args& args);

/// Where a call asks for the same bits in any batch, one of the row program's kernels serves.
Support has_other_bits(const Query& q);

/// What the forward kernels have in common. Each waits for the kernels before it before it touches
/// memory, so a dependent launch can always be asked for. The weight, too, may be the work of the
/// kernel before (an optimizer's step, a cast): nothing of the caller's is read ahead of that wait.
/// 4096×4096 bf16 on H200, 2026-11-21: 18.7 → 18.4 µs, 1×4096 1.7 → 1.3.
template <typename Config>
struct NormForm : kernels::CudaForm<NormCudaTraits, Config> {
  static constexpr bool kDependent = true;
  static const TraitsTable<NormCudaTraits>& traits_table() { return norm_traits_table(); }
  static NormCudaTraits traits(const Query& q, const Config&) { return traits_of(q); }
  static Support same_bits(const Query& q) { return has_other_bits(q); }
};

/// Where the tensors stand, for a call.
template <typename State>
const NormTensors& tensors_of(const State& state) {
  return *static_cast<const NormTensors*>(state.user);
}

/// A workspace for the sums of `rows` rows, of `members` blocks each: what is zero before the
/// launch lies first; its first 16 bytes are the kernel's own.
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

// One file each; `tensors` lives as long as the process:
Implementation cuda_ring(const NormTensors& tensors);
Implementation cuda_split(const NormTensors& tensors);

}  // namespace dlblas::norm
