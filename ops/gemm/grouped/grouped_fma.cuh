// Grouped products in f32 multiply-adds: any dtype, strides and alignment. Each block computes one
// tile of one group with matmul's mainloop.
// Flow: call > validate > select > compile > [launch].  Read next: device/gemm/groups.cuh,
// device/gemm/fma_mainloop.cuh.
#pragma once

#include "device/gemm/fma_mainloop.cuh"
#include "device/gemm/groups.cuh"
#include "device/pdl.cuh"
#include "ops/gemm/grouped/grouped_epilogue.cuh"

namespace dlblas::gemm {

template <GroupedTraits S, GroupedConfig T>
// Two or four blocks per multiprocessor: left alone, ptxas plans for more and spills.
__global__ void __launch_bounds__(kGroupedFmaTiles[T.tile].threads(),
                                  512 / kGroupedFmaTiles[T.tile].threads())
    grouped_fma(const __grid_constant__ GroupedParams<GroupedEpilogue<S.out>> p) {
  constexpr GemmFmaConfig C = kGroupedFmaTiles[T.tile];
  using Epilogue = GroupedEpilogue<S.out>;
  using Shape = FmaShape<S.gemm, C, 1>;
  extern __shared__ __align__(16) float shared[];
  wait_for_dependencies();
  launch_dependents();
  GemmParams<Epilogue> mine = p.product;
  const GroupEntered place =
      enter_group<S.groups, C.block_m, C.block_n, 8>(mine, p.groups, S.gemm.type, blockIdx.x);
  if (!place.there) return;
  const int64_t m0 = static_cast<int64_t>(place.m) * C.block_m;
  const int64_t n0 = static_cast<int64_t>(place.n) * C.block_n;
  const auto rows = source_rows<S.groups, C.block_m>(
      reinterpret_cast<int64_t*>(shared + C.shared_bytes(S.gemm.span) / 4), p.groups, place.range,
      m0, mine.gemm.a_row);
  typename Shape::Sums d = {};
  if constexpr (S.gemm.span > 0) {
    typename Shape::Carry carried(shared + C.buffer_bytes() / 4, static_cast<int>(threadIdx.x));
    fma_mainloop<S.gemm, C, 1>(
        d, shared, mine.gemm, m0, n0, [&] { carried.add(&d[0][0]); }, rows);
    carried.finish(&d[0][0]);
  } else {
    fma_mainloop<S.gemm, C, 1>(
        d, shared, mine.gemm, m0, n0, [] {}, rows);
  }
  fma_store<S.gemm, C, Epilogue>(d, shared, mine, m0, n0);
}

}  // namespace dlblas::gemm
