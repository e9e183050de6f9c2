// One thread's part of a row, or of a chunk of one, in registers: kVectors accesses of N elements,
// kThreads apart, so that accesses are coalesced.
// Read next: ops/norm/cuda/norm_split.cuh.
#pragma once

#include "device/guarded.cuh"
#include "ops/norm/cuda/norm_stages.cuh"

namespace dlblas::norm {

template <NormCudaTraits S, int kThreads, int kVectors>
struct NormTile {
  static constexpr int N = norm_elements(S);
  static constexpr int kColumns = kThreads * kVectors * N;
  using Row = NormVec<S>[kVectors];
  using Weights = NormWeightVec<S>[kVectors];

  int first;  // the thread's first column
  int width;  // columns of the row; with S.full the tile is all of them

  /// Takes as many of the columns left as fit.
  __device__ void hold(int64_t left) {
    width = static_cast<int>(min(left, static_cast<int64_t>(kColumns)));
  }
  __device__ int column(int i) const { return first + i * kThreads * N; }
  __device__ bool holds(int i) const { return S.full || column(i) < width; }

  /// 16-byte accesses are predicated, others branch. Full rows need neither, but with more than
  /// four accesses the predicated statements compile faster; with more than eight they spill.
  static constexpr bool kGuarded = S.align == 16 && (!S.full || (kVectors > 4 && kVectors <= 8));

  template <Cache kCache = Cache::kDefault>
  __device__ void load(Row& row, const void* base, int64_t offset) const {
    const void* at = at_element<S.type>(base, offset + first);
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      if constexpr (kGuarded)
        load_if<kCache>(holds(i), row[i].words, at_element<S.type>(at, i * kThreads * N));
      else
        row[i] = holds(i) ? load_row<S, kCache>(at, i * kThreads * N) : NormVec<S>::zero();
  }
  template <Cache kCache = Cache::kDefault>
  __device__ void store(void* base, int64_t offset, const Row& row) const {
    void* at = at_element<S.type>(base, offset + first);
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      if constexpr (kGuarded)
        store_if<kCache>(holds(i), at_element<S.type>(at, i * kThreads * N), row[i].words);
      else if (holds(i))
        store_row<S, kCache>(at, i * kThreads * N, row[i]);
  }
  /// From the row's place in shared memory; keep() writes it.
  __device__ void load_kept(Row& row, const void* base, int64_t offset) const {
    const void* at = at_element<S.type>(base, offset + first);
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      if constexpr (kGuarded)
        load_shared_if(holds(i), row[i].words, at_element<S.type>(at, i * kThreads * N));
      else
        row[i] = holds(i) ? load_row<S>(at, i * kThreads * N) : NormVec<S>::zero();
  }
  __device__ void keep(void* base, int64_t offset, const Row& row) const {
    void* at = at_element<S.type>(base, offset + first);
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      if constexpr (kGuarded)
        store_shared_if(holds(i), at_element<S.type>(at, i * kThreads * N), row[i].words);
      else if (holds(i))
        store_row<S>(at, i * kThreads * N, row[i]);
  }
  __device__ void load_weights(Weights& weights, const void* base, int64_t offset) const {
    const void* at = at_element<S.weight>(base, offset + first);
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      if constexpr (kGuarded && S.weight == S.type && S.weight_align > 0)
        load_if<Cache::kEarly>(holds(i), weights[i].words,
                               at_element<S.weight>(at, i * kThreads * N));
      else
        weights[i] = holds(i) ? load_weight<S, Cache::kEarly>(at, i * kThreads * N)
                              : NormWeightVec<S>::zero();
  }

  __device__ static void add(Row& h, const Row& x, const Row& residual) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      if constexpr (S.add)
        h[i] = add_residual<S>(x[i], residual[i]);
      else
        h[i] = x[i];
  }
  __device__ static void squares(Squares& sum, const Row& h) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) sum.take(h[i]);
  }
  __device__ static float squares(const Row& h) {
    Squares sum;
    squares(sum, h);
    return sum.sum();
  }
  __device__ static void normalize(Row& h, const Weights& weights, RowScale<S.type> scale,
                                   float offset) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) h[i] = norm::normalize<S>(h[i], weights[i], scale, offset);
  }
};

}  // namespace dlblas::norm
