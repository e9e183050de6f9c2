// Epilogue programs of the WGMMA form: what happens to a tile between the accumulators and memory.
// In: sums in registers, in WGMMA's layout, and operands of the call. Out: values in the same
// registers, which the epilogue rounds and stores. A program has no addresses, masks, barriers or
// loops over tiles.
//
//   struct Scaled : GemmProgram {                     D = row[m] · sum + residual[m, n]
//     enum Operands { kRow, kResidual };              places in GemmWgmmaCall::operands
//     static constexpr DType kOut = DType::kBF16;
//     template <class At>
//     struct Asked {                                  what a strip needs from memory
//       typename At::template Row<DType::kF32> row;
//       typename At::template Element<DType::kBF16> residual;
//     };
//     template <class At>
//     __device__ static void ask(Asked<At>& a, const At& at) {
//       a.row.ask(at, kRow), a.residual.ask(at, kResidual);
//     }
//     template <class A>
//     __device__ static float value(const float (&sums)[kParts], const A& a, const GemmWgmmaCall&,
//                                   int h, int j, int e) {
//       return a.row(h, j, e) * sums[0] + a.residual(h, j, e);
//     }
//   };
//
// Of 64 rows × 8·kBlocks columns, a thread of a multiplying warpgroup holds rows r and r + 8 (h)
// and, in every block j of 8 columns, the two from 2·(lane mod 4) on (e). Four lanes hold a row. In
// a swapped kernel the fragment's rows are the product's columns; operands account for that, so a
// program over (h, j, e) is the same in both. Column, Row, Element: one value per column of the
// product, row, element. A program that combines elements has `apply` instead of `value`.
// Read next: wgmma_epilogue.cuh, ops/gemm/matmul/cuda/matmul_wgmma.cuh (a program).
#pragma once

#include "device/gemm/wgmma_config.hpp"
#include "device/numeric.cuh"

namespace dlblas {

/// Defaults that a program may keep.
struct GemmProgram {
  static constexpr int kParts = 1;         // matrices b that meet: 2 for a gate and what it scales
  static constexpr int kStores = 1;        // parts that are stored, each to its own out
  static constexpr int kStripColumns = 0;  // columns that must be seen at once; 0: any number
  static constexpr int kFold = 0;          // columns of a head, if they are folded
  template <class At>
  struct Asked {};
  template <class At>
  __device__ static __forceinline__ void ask(Asked<At>&, const At&) {}
};

/// kCount blocks of 8 columns from block kFirst on, of each part's kPartBlocks.
template <int kAll, int kFirst, int kPartBlocks, int kCount>
struct GemmStrip {
  static constexpr int kBlocks = kCount;
  float (&d)[kAll];
  __device__ __forceinline__ float& operator()(int part, int h, int j, int e) const {
    return d[(part * kPartBlocks + kFirst + j) * 4 + h * 2 + e];
  }
};

/// Applies a program to a strip.
template <class P, class S, class A, class At>
__device__ __forceinline__ void apply_program(const S& s, const A& asked, const At& at) {
  if constexpr (requires { P::apply(s, asked, at); }) {
    P::apply(s, asked, at);
  } else {
#pragma unroll
    for (int j = 0; j < S::kBlocks; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float sums[P::kParts];
#pragma unroll
          for (int p = 0; p < P::kParts; ++p) sums[p] = s(p, h, j, e);
          s(0, h, j, e) = P::value(sums, asked, at.call, h, j, e);
        }
  }
}

// Loads of operands that no thread of the kernel writes; zero if not `inside`. They stay where they
// are written, between the barriers of the rounds: all strips' loads at once would spill, and ptxas
// moves loads that are marked constant (ld.global.nc) across barriers.

__device__ __forceinline__ uint32_t ask_word(const void* from, bool inside) {
  uint32_t v;
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\tmov.b32 %0, 0;\n\t"
      "@p ld.global.u32 %0, [%1];\n\t}"
      : "=r"(v)
      : "l"(from), "r"(static_cast<int32_t>(inside)));
  return v;
}
__device__ __forceinline__ uint32_t ask_half(const void* from, bool inside) {
  uint16_t v;
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\tmov.b16 %0, 0;\n\t"
      "@p ld.global.u16 %0, [%1];\n\t}"
      : "=h"(v)
      : "l"(from), "r"(static_cast<int32_t>(inside)));
  return v;
}
__device__ __forceinline__ void ask_two(uint32_t& low, uint32_t& high, const void* from,
                                        bool inside) {
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %3, 0;\n\tmov.b32 %0, 0;\n\tmov.b32 %1, 0;\n\t"
      "@p ld.global.v2.u32 {%0, %1}, [%2];\n\t}"
      : "=r"(low), "=r"(high)
      : "l"(from), "r"(static_cast<int32_t>(inside)));
}
/// The bits of element `at` of an array of T.
template <DType T>
__device__ __forceinline__ uint32_t ask_one(const void* base, int64_t at, bool inside) {
  static_assert(size_of(T) == 4 || size_of(T) == 2);
  const void* from = static_cast<const char*>(base) + at * size_of(T);
  return size_of(T) == 4 ? ask_word(from, inside) : ask_half(from, inside);
}

/// A thread's position in a strip, and the kinds of operands.
template <bool kSwapped, int kBlocksOf, int kFold = 0>
struct GemmFragment {
  static constexpr int kBlocks = kBlocksOf;
  const GemmWgmmaCall& call;
  int32_t first_row, first_column;  // of D as the kernel sees it

  /// Columns from the first block of 8 to block j.
  __device__ static constexpr int32_t apart(int j) {
    return 8 * j + (kFold > 0 && 8 * j >= kGemmFoldPiece ? kFold / 2 - kGemmFoldPiece : 0);
  }
  __device__ __forceinline__ int32_t row(int h) const { return first_row + 8 * h; }
  __device__ __forceinline__ int32_t column(int j, int e = 0) const {
    return first_column + apart(j) + e;
  }
  __device__ __forceinline__ bool row_inside(int h) const { return row(h) < call.m; }
  __device__ __forceinline__ bool column_inside(int j, int e = 0) const {
    return column(j, e) < call.n;
  }

  /// One value per row or per column of the fragment: contiguous, 8-byte aligned; the number of
  /// columns is even. A pair of columns is one access and, if 16-bit, one word until it is used;
  /// addresses are one base plus constants, since 16 separate addresses would spill.
  template <DType T, bool kOfRows>
  struct Vector {
    static constexpr int kWords = size_of(T) / 2;  // of a pair
    uint32_t bits[kOfRows ? 2 : kBlocks * kWords];
    __device__ __forceinline__ void ask(const GemmFragment& at, int place) {
      const char* const from = static_cast<const char*>(at.call.operands[place].data) +
                               int64_t{kOfRows ? at.first_row : at.first_column} * size_of(T);
      if constexpr (kOfRows) {
#pragma unroll
        for (int h = 0; h < 2; ++h) bits[h] = ask_one<T>(from, 8 * h, at.row_inside(h));
      } else {
#pragma unroll
        for (int j = 0; j < kBlocks; ++j) {
          const char* const pair = from + apart(j) * size_of(T);
          if constexpr (kWords == 1)
            bits[j] = ask_word(pair, at.column_inside(j));
          else
            ask_two(bits[2 * j], bits[2 * j + 1], pair, at.column_inside(j));
        }
      }
    }
    __device__ __forceinline__ float operator()(int h, int j, int e) const {
      if constexpr (kOfRows) return unpack_one<T>(bits[h]);
      if constexpr (!kOfRows && kWords == 2) return float_from_bits(bits[j * 2 + e]);
      if constexpr (!kOfRows && kWords == 1) {
        const FloatPair pair = unpack_pair<T>(bits[j]);
        return e ? pair.high : pair.low;
      }
    }
  };
  template <DType T>
  using Column = Vector<T, kSwapped>;
  template <DType T>
  using Row = Vector<T, !kSwapped>;

  /// A 16-bit matrix of the result's shape, with contiguous, 4-byte aligned rows and an even number
  /// of columns: a pair is one word.
  template <DType T>
  struct Element {
    static_assert(size_of(T) == 2);
    uint32_t words[2][kBlocks];
    __device__ __forceinline__ void ask(const GemmFragment& at, int place) {
      const GemmOperand& o = at.call.operands[place];
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int j = 0; j < kBlocks; ++j) {
          if constexpr (kSwapped) {
            const int64_t from = at.column(j) * o.stride + at.row(h);
            words[h][j] =
                ask_one<T>(o.data, from, at.row_inside(h) && at.column_inside(j)) |
                ask_one<T>(o.data, from + o.stride, at.row_inside(h) && at.column_inside(j, 1))
                    << 16;
          } else {
            const void* from =
                static_cast<const uint16_t*>(o.data) + at.row(h) * o.stride + at.column(j);
            words[h][j] = ask_word(from, at.row_inside(h) && at.column_inside(j));
          }
        }
    }
    __device__ __forceinline__ float operator()(int h, int j, int e) const {
      const FloatPair pair = unpack_pair<T>(words[h][j]);
      return e ? pair.high : pair.low;
    }
  };
};

}  // namespace dlblas
