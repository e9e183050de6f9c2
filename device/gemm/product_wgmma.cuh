// A product program on the WGMMA form: operands are loaded in fragment layout. There, row and
// column operands are contiguous, and element operands are 16 bits wide with contiguous rows; the
// host ensures this (src/kernels/product_wgmma.cpp). Read next: device/gemm/wgmma_program.cuh.
#pragma once

#include "device/gemm/product_config.hpp"
#include "device/gemm/wgmma_mainloop.cuh"
#include "device/row/values.cuh"

namespace dlblas {

/// What a strip needs of one operand; empty if it was not given or is read pair by pair.
template <ProductTraits S, class At, class O>
struct ProductAsked {
  static constexpr DType kType = S.operands[O::kPlace];
  template <Per kPer, class = void>
  struct KindOf {
    using Type = typename At::template Row<kType>;
  };
  template <class Any>
  struct KindOf<Per::kColumn, Any> {
    using Type = typename At::template Column<kType>;
  };
  template <class Any>
  struct KindOf<Per::kElement, Any> {
    using Type = typename At::template Element<kType>;
  };
  typename KindOf<O::kPer>::Type values;

  __device__ __forceinline__ void ask(const At& at) { values.ask(at, O::kPlace); }
  __device__ __forceinline__ float value(int h, int j, int e) const { return values(h, j, e); }
};
template <ProductTraits S, class At, class O>
requires(!S.has(O::kPlace) || O::kPer == Per::kPair) struct ProductAsked<S, At, O> {
  __device__ __forceinline__ void ask(const At&) {}
  __device__ __forceinline__ float value(int, int, int) const { return 0; }
};

template <ProductTraits S, class At, class Operands>
struct ProductAllAsked;
template <ProductTraits S, class At, class... Os>
struct ProductAllAsked<S, At, ProductOperands<Os...>> : ProductAsked<S, At, Os>... {
  __device__ __forceinline__ void ask(const At& at) { (ProductAsked<S, At, Os>::ask(at), ...); }
  template <class O>
  __device__ __forceinline__ float of(O, int h, int j, int e) const {
    return ProductAsked<S, At, O>::value(h, j, e);
  }
};

/// One element of a strip, as a program sees it.
template <ProductTraits S, class Asked>
struct ProductElement {
  const Asked& asked;
  int h, j, e;

  template <class O>
  __device__ static constexpr bool has(O) {
    return S.has(O::kPlace);
  }
  __device__ static constexpr int32_t option(int i) { return S.options[i]; }
  template <class O>
  __device__ __forceinline__ float operator()(O operand) const {
    return asked.of(operand, h, j, e);
  }
};

/// What pairs i and i + 1 of a head read from a table, in one access; only pair i if a pair's
/// channels are neighbours. Table rows are aligned to two elements.
template <ProductTraits S, class At, class O>
struct ProductTable {};
template <ProductTraits S, class At, class O>
requires(O::kPer == Per::kPair) struct ProductTable<S, At, O> {
  static constexpr DType kType = S.operands[O::kPlace];
  FloatPair low, high;

  __device__ __forceinline__ void load(const At& at, int64_t row, int32_t i) {
    const GemmOperand& o = at.call.operands[O::kPlace];
    const char* const from =
        static_cast<const char*>(o.data) + (row * o.stride + i) * size_of(kType);
    low = two(from), high = two(from + S.pairs.channels / 2 * size_of(kType));
  }
  __device__ static __forceinline__ FloatPair two(const char* from) {
    if constexpr (S.pairs.neighbours) {
      const float one = unpack_one<kType>(ask_one<kType>(from, 0, true));
      return {one, one};
    } else if constexpr (kType == DType::kF32) {
      uint32_t a, b;
      ask_two(a, b, from, true);
      return {float_from_bits(a), float_from_bits(b)};
    } else {
      return unpack_pair<kType>(ask_word(from, true));
    }
  }
};
template <ProductTraits S, class At, class O>
requires(O::kPer != Per::kPair) struct ProductTable<S, At, O> {
  __device__ __forceinline__ void load(const At&, int64_t, int32_t) {}
};
template <ProductTraits S, class At, class Operands>
struct ProductTables;
template <ProductTraits S, class At, class... Os>
struct ProductTables<S, At, ProductOperands<Os...>> : ProductTable<S, At, Os>... {
  int e = 0;  // which of the two

  __device__ __forceinline__ void load(const At& at, int64_t row, int32_t i) {
    (ProductTable<S, At, Os>::load(at, row, i), ...);
  }
  template <class O>
  __device__ __forceinline__ float low(O) const {
    const FloatPair& pair = ProductTable<S, At, O>::low;
    return e ? pair.high : pair.low;
  }
  template <class O>
  __device__ __forceinline__ float high(O) const {
    const FloatPair& pair = ProductTable<S, At, O>::high;
    return e ? pair.high : pair.low;
  }
};

template <class P, ProductTraits S>
struct ProductWgmma : GemmProgram {
  static constexpr int kParts = P::kParts;
  static constexpr DType kOut = S.out;
  static constexpr int kFold = S.folded ? S.pairs.channels : 0;
  static constexpr int kStripColumns = P::kGroup > 0                      ? P::kGroup
                                       : S.folded                         ? 2 * kGemmFoldPiece
                                       : P::kPairs && !S.pairs.neighbours ? S.pairs.channels
                                                                          : 0;

  template <class At>
  using Asked = ProductAllAsked<S, At, typename P::Operands>;
  template <class At>
  __device__ static __forceinline__ void ask(Asked<At>& asked, const At& at) {
    asked.ask(at);
  }
  template <class A>
  __device__ static __forceinline__ float value(const float (&sums)[kParts], const A& asked,
                                                const GemmWgmmaCall&, int h, int j, int e) {
    const auto sum = [&](int part) { return sums[part]; };
    return P::value(sum, ProductElement<S, A>{asked, h, j, e});
  }

  /// Columns that are combined: computes each value in its register first, then combines them. A
  /// strip holds whole heads, and a thread has both channels of a pair.
  template <class Strip, class A, class At>
  requires(P::kPairs || P::kGroup > 0) __device__ static __forceinline__
      void apply(const Strip& s, const A& asked, const At& at) {
#pragma unroll
    for (int j = 0; j < Strip::kBlocks; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float sums[kParts];
#pragma unroll
          for (int part = 0; part < kParts; ++part) sums[part] = s(part, h, j, e);
          s(0, h, j, e) = value(sums, asked, at.call, h, j, e);
        }
    if constexpr (P::kPairs) turn_all(s, at);
    if constexpr (P::kGroup > 0) scale_all(s, at);
  }

 private:
  /// Blocks of 8 columns from a channel to the one that pairs with it.
  static constexpr int kHalf = S.folded ? kGemmFoldPiece / 8 : S.pairs.channels / 16;

  /// One group per strip. Four lanes hold a row; columns beyond the matrix are zeros.
  template <class Strip, class At>
  __device__ static __forceinline__ void scale_all(const Strip& s, const At& at) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = 0;
#pragma unroll
      for (int j = 0; j < Strip::kBlocks; ++j)
        most = DeviceMath::max(most, DeviceMath::max(fabsf(s(0, h, j, 0)), fabsf(s(0, h, j, 1))));
      most = DeviceMath::max(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = DeviceMath::max(most, __shfl_xor_sync(0xffffffffu, most, 2));
      const float scale = P::scale(most), factor = DeviceMath::reciprocal(scale);
#pragma unroll
      for (int j = 0; j < Strip::kBlocks; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) s(0, h, j, e) *= factor;
      if (threadIdx.x % 4 != 0 || !at.row_inside(h) || !at.column_inside(0)) continue;
      const GemmOperand& to = at.call.operands[kScalePlace];
      static_cast<float*>(
          to.data)[at.row(h) * to.stride +
                   at.column(0) / P::kGroup * int64_t{at.call.numbers[kScaleStride]}] = scale;
    }
  }

  template <class Strip, class At>
  __device__ static __forceinline__ void turn_all(const Strip& s, const At& at) {
    const int32_t turned = at.call.numbers[kPairedColumns], rows = at.call.numbers[kTableRows];
    if constexpr (S.pairs.neighbours) {
#pragma unroll
      for (int j = 0; j < Strip::kBlocks; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h) turn<1>(s, at, h, turned, rows, j);
    } else {
      constexpr int kHeads = Strip::kBlocks / (2 * kHalf);
#pragma unroll
      for (int head = 0; head < kHeads; ++head)
#pragma unroll
        for (int j = 0; j < kHalf; j += kTogether)
#pragma unroll
          for (int h = 0; h < 2; ++h)
            turn<kTogether>(s, at, h, turned, rows, head * 2 * kHalf + j);
    }
  }

  /// Blocks of 8 columns whose tables are loaded before the first is needed. Four spilled beside 192
  /// sums.
  static constexpr int kTogether = S.folded ? 2 : 1;

  /// Combines the pairs of row h in kCount blocks from `first` on, all of one head.
  template <int kCount, class Strip, class At>
  __device__ static __forceinline__ void turn(const Strip& s, const At& at, int h, int32_t turned,
                                              int32_t rows, int first) {
    const int32_t column = at.column(first);
    if (column >= turned) return;
    const int32_t channel = column % S.pairs.channels;
    const int64_t row = at.row(h) % rows;
    ProductTables<S, At, typename P::Operands> tables[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j)
      tables[j].load(at, row, S.pairs.neighbours ? channel / 2 : channel + 8 * j);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if constexpr (S.pairs.neighbours) {
        P::pair(s(0, h, first + j, 0), s(0, h, first + j, 1), tables[j]);
      } else {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          tables[j].e = e;
          P::pair(s(0, h, first + j, e), s(0, h, first + j + kHalf, e), tables[j]);
        }
      }
    }
  }
};

}  // namespace dlblas
