// What one thread holds of a row, or of a chunk of one, in registers: kVectors accesses of N
// elements, kThreads apart, so that neighbours read neighbouring memory.
// Read next: ops/norm/norm_registers.cuh, ops/norm/norm_split.cuh.
#pragma once

#include "ops/norm/norm_stages.cuh"

namespace dlblas {

template <NormCudaTraits S, int kThreads, int kVectors>
struct NormTile {
  static constexpr int N = norm_elements(S);
  static constexpr int kColumns = kThreads * kVectors * N;
  using Row = NormVec<S>[kVectors];
  using Weights = NormWeightVec<S>[kVectors];

  int first;  // the thread's first column
  int width;  // columns of the row; with S.full the tile is all of them

  __device__ int column(int i) const { return first + i * kThreads * N; }
  __device__ bool holds(int i) const { return S.full || column(i) < width; }

  template <Cache kCache = Cache::kDefault>
  __device__ void load(Row& row, const void* base, int64_t offset) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      row[i] = holds(i) ? load_row<S, kCache>(base, offset + column(i)) : NormVec<S>::zero();
  }
  template <Cache kCache = Cache::kDefault>
  __device__ void store(void* base, int64_t offset, const Row& row) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      if (holds(i)) store_row<S, kCache>(base, offset + column(i), row[i]);
  }
  __device__ void load_weights(Weights& weights, const void* base, int64_t offset) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      weights[i] = holds(i) ? load_weight<S, Cache::kEarly>(base, offset + column(i))
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
  __device__ static float squares(const Row& h) {
    Squares squares;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) squares.take(h[i]);
    return squares.sum();
  }
  __device__ static void normalize(Row& h, const Weights& weights, float scale,
                                   const NormCudaParams& p) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      h[i] = dlblas::normalize<S>(hide(h[i], p.zero), weights[i], scale, p.weight_offset);
  }

  // Cold, so h is read again instead of unrolled over registers.
  __device__ double squares_wide(const void* h, int64_t offset) const {
    double sum = 0;
#pragma unroll 1
    for (int i = 0; i < kVectors; ++i)
      if (holds(i)) sum += dlblas::squares_wide<S>(h, offset + column(i), N);
    return sum;
  }
  /// `start`: the tile's first column in the row.
  __device__ void normalize_wide(const NormCudaParams& p, int64_t row, int64_t start,
                                 double scale) const {
#pragma unroll 1
    for (int i = 0; i < kVectors; ++i)
      if (holds(i)) dlblas::normalize_wide<S>(p, row, start + column(i), N, scale);
  }
};

}  // namespace dlblas
