// The kernel of an oracle whose results are rows: one block per row, slow and plain on purpose. The
// host's reference, from the same source, checks it before it judges (tuner/oracle_source.cpp).
// Flow: tune > measure > [judge]. Read next: device/oracle/row.hpp, src/kernels/row_oracle.cpp.
#pragma once

#include "device/element_f64.cuh"
#include "device/oracle/row.hpp"

namespace dlblas {

class BlockTeam {
 public:
  static constexpr int kThreads = 256;
  explicit BlockTeam(double* scratch) : scratch_(scratch) {}
  int thread() const { return static_cast<int>(threadIdx.x); }
  int threads() const { return kThreads; }
  void barrier() const { __syncthreads(); }
  double* scratch() const { return scratch_; }
  // Not inlined: an oracle that reads at ten places would compile for seconds.
  __noinline__ double element(const StridedView& t, int64_t index) const {
    return load_element(t, offset_of(t, index));
  }
  __noinline__ double rounded(DType dtype, double v) const { return round_to(dtype, v); }
  /// The bits of non-negative values order as the values do, NaN last.
  void keep_most(double* place, double v) const {
    atomicMax(reinterpret_cast<unsigned long long*>(place),
              static_cast<unsigned long long>(__double_as_longlong(v)));
  }

 private:
  double* scratch_;
};

template <void (*kRow)(TeamRow<BlockTeam>&)>
__global__ void __launch_bounds__(BlockTeam::kThreads)
    oracle_rows(const __grid_constant__ OracleCall call) {
  __shared__ double scratch[kTeamDoubles * BlockTeam::kThreads];
  const BlockTeam team(scratch);
  TeamRow<BlockTeam> row(call, team, blockIdx.x);
  kRow(row);
}

/// Launched twice: one block for each part of what rows share, then one block per row.
template <void (*kShared)(TeamRow<BlockTeam>&), void (*kRow)(TeamRow<BlockTeam>&)>
__global__ void __launch_bounds__(BlockTeam::kThreads)
    oracle_shared_rows(const __grid_constant__ OracleCall call) {
  __shared__ double scratch[kTeamDoubles * BlockTeam::kThreads];
  const BlockTeam team(scratch);
  TeamRow<BlockTeam> row(call, team, blockIdx.x);
  if (call.pass == 0)
    kShared(row);
  else
    kRow(row);
}

}  // namespace dlblas
