// The epilogue of grouped products: one rounding, the store. Read next: device/gemm/epilogue.cuh.
#pragma once

#include "device/gemm/epilogue.cuh"
#include "ops/gemm/grouped/grouped_config.hpp"

namespace dlblas::gemm {

template <GemmOutTraits T>
struct GroupedEpilogue {
  using Params = GroupedOut;
  static constexpr int kParts = 1;
  static constexpr bool kBranches = false;
  static constexpr int kOutBytes = size_of(T.type);

  template <int N>
  __device__ static __forceinline__ void store(const Params& p, const GemmAt& at,
                                               const GemmSums<kParts>& sums) {
    store_values<T, N>(p.out, at, [&](int i) { return sums(0, i); });
  }
};

}  // namespace dlblas::gemm
