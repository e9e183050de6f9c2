// Batched products in f32 multiply-adds: any dtype, strides and alignment. Each block computes one
// tile of one matrix with matmul's mainloop and epilogue.
// Flow: call > validate > select > compile > [launch].  Read next: device/gemm/fma_mainloop.cuh.
#pragma once

#include "device/gemm/fma_mainloop.cuh"
#include "device/pdl.cuh"
#include "ops/gemm/batched/batched.cuh"

namespace dlblas::gemm {

template <BatchedTraits S, BatchedConfig T>
__global__ void __launch_bounds__(kBatchedFmaTiles[T.tile].threads())
    batched_fma(const __grid_constant__ BatchedParams<MatmulEpilogue<S.epilogue>> p) {
  constexpr GemmFmaConfig C = kBatchedFmaTiles[T.tile];
  using Epilogue = MatmulEpilogue<S.epilogue>;
  using Shape = FmaShape<S.gemm, C, 1>;
  extern __shared__ __align__(16) float floats[];
  wait_for_dependencies();
  launch_dependents();
  GemmParams<Epilogue> mine = p.product;
  if (!enter_matrix<S>(mine, p.batch)) return;
  const auto blocks_n = static_cast<uint32_t>((mine.gemm.n + C.block_n - 1) / C.block_n);
  const int64_t m0 = int64_t{blockIdx.x / blocks_n} * C.block_m;
  const int64_t n0 = int64_t{blockIdx.x % blocks_n} * C.block_n;
  typename Shape::Sums d = {};
  if constexpr (S.gemm.span > 0) {
    typename Shape::Carry carried(floats + C.buffer_bytes() / 4, static_cast<int>(threadIdx.x));
    fma_mainloop<S.gemm, C, 1>(d, floats, mine.gemm, m0, n0, [&] { carried.add(&d[0][0]); });
    carried.finish(&d[0][0]);
  } else {
    fma_mainloop<S.gemm, C, 1>(d, floats, mine.gemm, m0, n0, [] {});
  }
  fma_store<S.gemm, C, Epilogue>(d, floats, mine, m0, n0);
}

}  // namespace dlblas::gemm
