// Batched products on tensor cores, sm_80 and later: each block computes one tile of one matrix
// with matmul's mainloop and epilogue.
// Flow: call > validate > select > compile > [launch].  Read next: device/gemm/mma_mainloop.cuh.
#pragma once

#include "device/gemm/mma_mainloop.cuh"
#include "device/pdl.cuh"
#include "ops/gemm/batched/batched.cuh"

namespace dlblas::gemm {

/// Blocks per multiprocessor that ptxas plans for. 0 leaves the choice to ptxas, which then spills
/// before sm_90, and where a block has the rows of one warp.
template <GemmMmaConfig C>
constexpr int batched_blocks() {
#if __CUDA_ARCH__ < 900
  return 2;
#endif
  return C.block_m <= 32 ? 1 : 0;
}

template <BatchedTraits S, BatchedConfig T>
__global__ void __launch_bounds__(kBatchedMmaTiles[T.tile].threads(),
                                  batched_blocks<kBatchedMmaTiles[T.tile]>())
    batched_mma(const __grid_constant__ BatchedParams<MatmulEpilogue<S.epilogue>> p) {
  constexpr GemmMmaConfig C = kBatchedMmaTiles[T.tile];
  using Epilogue = MatmulEpilogue<S.epilogue>;
  using Shape = MmaShape<S.gemm, C>;
  extern __shared__ __align__(128) unsigned char shared[];
  wait_for_dependencies();
  launch_dependents();
  GemmParams<Epilogue> mine = p.product;
  if (!enter_matrix<S>(mine, p.batch)) return;
  const MmaPlace at = mma_place<C, 1>(mine.gemm);
  typename Shape::Sums d = {};
  if constexpr (S.gemm.span > 0) {
    typename Shape::Carry carried(shared + C.ring_bytes(), static_cast<int>(threadIdx.x));
    mma_mainloop<S.gemm, C, 1>(d, shared_address(shared), mine.gemm, at,
                               [&] { carried.add(&d[0][0][0]); });
    carried.finish(&d[0][0][0]);
  } else {
    mma_mainloop<S.gemm, C, 1>(d, shared_address(shared), mine.gemm, at, [] {});
  }
  mma_store<S.gemm, C, Epilogue>(d, reinterpret_cast<float*>(shared), mine, at);
}

}  // namespace dlblas::gemm
