// A product program as the epilogue of the mma, few-row and multiply-add main loops, and as a pass
// over sums in memory. Operands have any strides and are read where they are used. In place is
// safe: a thread reads all that it overwrites before it stores. Columns combined in pairs need a
// head's sums side by side: in memory, or in one mma.sync warp's part of a tile.
// Read next: device/gemm/product.hpp (programs), device/gemm/epilogue.cuh (the contract).
#pragma once

#include "device/gemm/epilogue.cuh"
#include "device/gemm/product_config.hpp"
#include "device/pdl.cuh"

namespace dlblas {

/// One element of the result, as a program sees it.
template <ProductTraits S>
struct ProductAt {
  const ProductParams& p;
  int64_t m, n;

  template <class O>
  __device__ static constexpr bool has(O) {
    return S.has(O::kPlace);
  }
  __device__ static constexpr int32_t option(int i) { return S.options[i]; }
  template <class O>
  __device__ __forceinline__ float operator()(O) const {
    constexpr DType kType = S.operands[O::kPlace];
    if constexpr (kType == DType::kAbsent) {
      return 0;
    } else {
      const GemmOut& o = p.operands[O::kPlace];
      const int64_t row = O::kPer == Per::kColumn ? 0 : m * o.row;
      const int64_t column = O::kPer == Per::kRow ? 0 : n * o.col;
      float one[1];
      load_vec<kType, 1, S.aligned ? size_of(kType) : 1>(o.data, row + column).unpack(one);
      return one[0];
    }
  }
};

/// Pair i of a head in row m: what a program reads from tables.
template <ProductTraits S>
struct ProductPairAt {
  const ProductParams& p;
  int64_t m;
  int32_t i;

  template <class O>
  __device__ __forceinline__ float load(O, int32_t column) const {
    constexpr DType kType = S.operands[O::kPlace];
    static_assert(O::kPer == Per::kPair && kType != DType::kAbsent);
    const GemmOut& o = p.operands[O::kPlace];
    float one[1];
    // In 32 bits: a 64-bit division is a call.
    const uint32_t row = static_cast<uint32_t>(m + p.numbers[kFirstRow]) %
                         static_cast<uint32_t>(p.numbers[kTableRows]);
    load_vec<kType, 1, S.aligned ? size_of(kType) : 1>(o.data, row * o.row + column * o.col)
        .unpack(one);
    return one[0];
  }
  template <class O>
  __device__ __forceinline__ float low(O operand) const {
    return load(operand, i);
  }
  template <class O>
  __device__ __forceinline__ float high(O operand) const {
    return load(operand, i + S.pairs.channels / 2);
  }
};

template <class P, ProductTraits S>
struct ProductEpilogue {
  using Params = ProductParams;
  static constexpr int kParts = P::kParts;
  static constexpr bool kBranches = true;

  template <int N>
  __device__ static __forceinline__ void store(const Params& p, const GemmAt& at,
                                               const GemmSums<kParts>& sums) {
    store_values<S.stored(), N>(p.out, at, [&](int i) {
      // A column that does not exist is not stored, so the operands of any existing one will do.
      if (at.n + i >= at.width) i = 0;
      if constexpr (P::kPairs)
        if (at.n + i < p.numbers[kPairedColumns]) return turned(p, at, sums, i);
      return value(p, at, sums, i);
    });
  }

 private:
  __device__ static __forceinline__ float value(const Params& p, const GemmAt& at,
                                                const GemmSums<kParts>& sums, int i) {
    const auto sum = [&](int part) { return sums(part, i); };
    return P::value(sum, ProductAt<S>{p, at.m, at.n + i});
  }
  /// The sums of a whole head are side by side.
  __device__ static __forceinline__ float turned(const Params& p, const GemmAt& at,
                                                 const GemmSums<kParts>& sums, int i) {
    constexpr int kChannels = S.pairs.channels, kApart = S.pairs.neighbours ? 1 : kChannels / 2;
    const auto channel = static_cast<int32_t>(static_cast<uint32_t>(at.n + i) % kChannels);
    const bool second = S.pairs.neighbours ? channel % 2 != 0 : channel >= kApart;
    const int first = second ? i - kApart : i;
    float low = value(p, at, sums, first), high = value(p, at, sums, first + kApart);
    const int32_t pair = S.pairs.neighbours ? channel / 2 : second ? channel - kApart : channel;
    P::pair(low, high, ProductPairAt<S>{p, at.m, pair});
    return second ? high : low;
  }
};

/// Each thread takes kProductFinishColumns neighbouring columns of a row.
template <class P, ProductTraits S>
__global__ void __launch_bounds__(kProductFinishThreads)
    product_finish(const __grid_constant__ ProductFinishParams p) {
  constexpr int kEach = kProductFinishColumns, kParts = P::kParts;
  wait_for_dependencies();
  launch_dependents();
  const int64_t chunks = (p.columns + kEach - 1) / kEach;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kProductFinishThreads + threadIdx.x;
  if (at >= p.rows * chunks) return;
  const int64_t m = at / chunks, n = at % chunks * kEach;
  using Epilogue = ProductEpilogue<P, S>;
  const GemmAt place{m, n, p.columns};
  if constexpr (P::kPairs) {
    static_assert(kParts == 1);
    return Epilogue::template store<kEach>(p.epilogue, place,
                                           GemmSums<1>{p.sums[0] + m * p.columns + n});
  }
  float sums[kEach * kParts] = {};
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const float* const from = p.sums[part] + m * p.columns + n;
    if (p.columns % 4 == 0 && n + kEach <= p.columns) {
#pragma unroll
      for (int i = 0; i < kEach; i += 4) {
        const auto v = *reinterpret_cast<const float4*>(from + i);
        sums[i * kParts + part] = v.x, sums[(i + 1) * kParts + part] = v.y;
        sums[(i + 2) * kParts + part] = v.z, sums[(i + 3) * kParts + part] = v.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (n + i < p.columns) sums[i * kParts + part] = from[i];
    }
  }
  Epilogue::template store<kEach>(p.epilogue, place, GemmSums<kParts>{sums});
}

}  // namespace dlblas
