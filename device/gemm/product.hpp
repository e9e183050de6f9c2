// Product programs: what is computed from the sums of a matrix product, written once for tensor
// cores, multiply-adds and CPUs. A program has no addresses, masks, loops or element types.
//
//   template <typename Math>                          math of activations, host or device
//   struct Scaled : ProductProgram {                  y = row[m] · sum + residual[m, n]
//     static constexpr ProductOperand<0, Per::kRow> kRow{};          places in ProductOp::operands
//     static constexpr ProductOperand<1, Per::kElement> kResidual{};
//     using Operands = ProductOperands<decltype(kRow), decltype(kResidual)>;
//     template <class Sums, class At>
//     DLBLAS_PRODUCT auto value(const Sums& sums, const At& at) {
//       const auto y = at(kRow) * sums(0);
//       return at.has(kResidual) ? y + at(kResidual) : y;
//     }
//   };
//
// Columns that are combined in pairs (kPairs): value() computes each, then `pair(low, high, at)`
// transforms the two in place, in columns below a bound of the call; at.low(kCos), at.high(kCos)
// are a table's values for them (ProductPairs says which columns form a pair).
//
// Columns that share a scale (kGroup of them): value() computes each, then `scale(amax)` their
// scale, over a whole strip; value / scale is stored, and the scale goes to a separate result.
//
// Values are f32: one element on a GPU, neighbouring columns of a row on a CPU. `at` provides the
// operands' values there, whether an operand was given, and the call's options (an activation's
// number), both known when a GPU's kernel is compiled. Adapters bring a program to a main loop:
// device/gemm/product_wgmma.cuh (Hopper), product.cuh (others), cpu/gemm/product_simd.hpp.
// In: plain values only; read by the host, NVRTC and the objects of instruction sets, so no
// function may appear here. Read next: ops/gemm/linear_residual/linear_residual_product.hpp.
#pragma once

#include "device/dtype.hpp"

#if defined(__CUDACC_RTC__)
#define DLBLAS_PRODUCT __device__ static __forceinline__
#else
#define DLBLAS_PRODUCT static inline __attribute__((always_inline))
#endif

namespace dlblas {

/// What each value of an operand belongs to.
enum class Per : unsigned char {
  kRow,
  kColumn,
  kElement,
  kPair,  // a table's row for a row of the result, repeated every so many, and pairs of a head
};

/// Which columns of the result form a pair, in heads of `channels`: 2i and 2i + 1, or i and i +
/// half of them. A table has one column per channel: i for a pair's first, i + half for its second.
struct ProductPairs {
  int channels;
  bool neighbours;
};

template <int kPlaceOf, Per kPerOf>
struct ProductOperand {
  static constexpr int kPlace = kPlaceOf;
  static constexpr Per kPer = kPerOf;
};
template <class... Os>
struct ProductOperands {};

/// Defaults that a program may keep.
struct ProductProgram {
  static constexpr int kParts = 1;  // matrices b that meet: 2 for a gate and what it scales
  static constexpr bool kPairs = false;
  static constexpr int kGroup = 0;  // columns of a scale
  using Operands = ProductOperands<>;
};

inline constexpr int kProductOperands = 6, kProductOptions = 4;
/// Numbers of a call: columns that are combined in pairs, rows of their tables, the first row of a
/// piece; elements between the scales of a row.
inline constexpr int kProductNumbers = 4;
enum ProductNumber : int { kPairedColumns, kTableRows, kFirstRow, kScaleStride };
/// The position of the scales among the operands.
inline constexpr int kScalePlace = kProductOperands - 1;

}  // namespace dlblas
