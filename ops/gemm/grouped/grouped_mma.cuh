// Grouped products on tensor cores, sm_80 and later: each block computes one tile of one group with
// matmul's mainloop. It neither reads nor writes rows of other groups.
// Flow: call > validate > select > compile > [launch].  Read next: device/gemm/groups.cuh,
// device/gemm/mma_mainloop.cuh.
#pragma once

#include "device/gemm/groups.cuh"
#include "device/gemm/mma_mainloop.cuh"
#include "device/pdl.cuh"
#include "ops/gemm/grouped/grouped_epilogue.cuh"

namespace dlblas::gemm {

template <GroupedTraits S, GroupedConfig T>
__global__ void __launch_bounds__(kGroupedMmaTiles[T.tile].threads())
    grouped_mma(const __grid_constant__ GroupedParams<GroupedEpilogue<S.out>> p) {
  constexpr GemmMmaConfig C = kGroupedMmaTiles[T.tile];
  using Epilogue = GroupedEpilogue<S.out>;
  extern __shared__ __align__(128) unsigned char shared[];
  wait_for_dependencies();
  launch_dependents();
  GemmParams<Epilogue> mine = p.product;
  const GroupEntered place = enter_group<S.groups, C.block_m, C.block_n, C.group_m>(
      mine, p.groups, S.gemm.type, blockIdx.x);
  if (!place.there) return;
  MmaPlace at;
  at.m = static_cast<int64_t>(place.m) * C.block_m,
  at.n = static_cast<int64_t>(place.n) * C.block_n;
  at.rows = static_cast<int32_t>(mine.gemm.m - at.m < C.block_m ? mine.gemm.m - at.m : C.block_m);
  at.cols = static_cast<int32_t>(mine.gemm.n - at.n < C.block_n ? mine.gemm.n - at.n : C.block_n);
  at.depth_begin = 0, at.depth = static_cast<int32_t>(mine.gemm.k);
  const auto rows = source_rows<S.groups, C.block_m>(
      reinterpret_cast<int64_t*>(shared + C.shared_bytes(S.gemm.span)), p.groups, place.range, at.m,
      mine.gemm.a_row);
  using Shape = MmaShape<S.gemm, C>;
  typename Shape::Sums d = {};
  if constexpr (S.gemm.span > 0) {
    typename Shape::Carry carried(shared + C.ring_bytes(), static_cast<int>(threadIdx.x));
    mma_mainloop<S.gemm, C, 1>(
        d, shared_address(shared), mine.gemm, at, [&] { carried.add(&d[0][0][0]); }, rows);
    carried.finish(&d[0][0][0]);
  } else {
    mma_mainloop<S.gemm, C, 1>(
        d, shared_address(shared), mine.gemm, at, [] {}, rows);
  }
  mma_store<S.gemm, C, Epilogue>(d, reinterpret_cast<float*>(shared), mine, at);
}

}  // namespace dlblas::gemm
