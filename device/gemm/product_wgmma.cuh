// A product program on the WGMMA form: its operands are asked for as fragments have them. Operands
// of rows and columns are contiguous there, those of elements 16 bits wide by rows; the host sees
// to it (src/kernels/product_wgmma.cpp). Read next: device/gemm/wgmma_program.cuh.
#pragma once

#include "device/gemm/product_config.hpp"
#include "device/gemm/wgmma_mainloop.cuh"

namespace dlblas {

/// What a strip needs of one operand; nothing where it was not given.
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
requires(!S.has(O::kPlace)) struct ProductAsked<S, At, O> {
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

template <class P, ProductTraits S>
struct ProductWgmma : GemmProgram {
  static constexpr int kParts = P::kParts;
  static constexpr DType kOut = S.out;

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
};

}  // namespace dlblas
