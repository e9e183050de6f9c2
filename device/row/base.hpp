// The names that row programs and their skeletons share: operands, stages, scopes, and what a
// program may leave out. Programs include device/row/program.hpp, which explains how to write one.
// Read next: device/row/program.hpp.
#pragma once

#include "device/row/call.hpp"

// The qualifiers of a program's functions, and a lambda's attribute. Inlining is forced at -O0 too,
// so that vectors stay in registers.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define DLBLAS_ROW __device__ static __forceinline__
#define DLBLAS_ROW_LAMBDA
#else
#define DLBLAS_ROW __attribute__((always_inline)) static inline
#define DLBLAS_ROW_LAMBDA __attribute__((always_inline))
#endif

namespace dlblas {

/// Are Access::option's values known when a program is compiled? On a CPU they are chosen at run
/// time, so cheap work is done there whatever they say.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
inline constexpr bool kOptionsAreConstants = true;
#else
inline constexpr bool kOptionsAreConstants = false;
#endif

/// The tensor at a position of RowCall::operands.
template <int kIndex>
struct Operand {
  static constexpr int index = kIndex;
};

/// One of the program's reductions, in order; each sees the Stats of the earlier ones.
template <int kIndex>
struct Stage {
  static constexpr int index = kIndex;
};

/// A result over columns that is summed over all rows, in the order of the program's operands.
template <int kIndex>
struct Fold {
  static constexpr int index = kIndex;
};

/// What a stage reduces over: a row, or groups of neighbouring columns, of the size in the call. A
/// stage over groups is the last one.
inline constexpr int kRowScope = 0, kGroupScope = 1;

/// The mean of columns and Σ(x − mean)², in f64.
struct RowMoments {
  double mean, squares;
};

struct RowEmpty {};

template <bool kFirst, typename A, typename B>
struct RowPick {
  using Type = A;
};
template <typename A, typename B>
struct RowPick<false, A, B> {
  using Type = B;
};

/// Defaults for what a program may leave out.
struct RowProgram {
  static constexpr int kStages = 0;
  static constexpr int kScopes[] = {kRowScope};
  /// Rows are heads (RowShape): column() counts from the first of a head.
  static constexpr bool kHasHeads = false;
  /// load_columns(Columns&, at): vectors over columns, the same for all rows (a weight) or for all
  /// heads of one (a table's row). kColumnsStage: the first stage that reads them; 3: only store
  /// does. kColumnsAfterRow: they are loaded after the row, since their address is itself loaded.
  static constexpr bool kHasColumns = false, kColumnsAfterRow = false;
  static constexpr int kColumnsStage = 3;
  /// load_columns() costs more than a head: a CPU calls it once for all heads. Needs kStages = 0.
  static constexpr bool kColumnsOnce = false;
  /// finalize_group(Stage, Kept&, total, at): what a group's total changes in each of its accesses.
  /// Kept may be loaded again before or after. A CPU calls it once per group, so it reads nothing
  /// that keep() sets, and keep() preserves what it sets.
  /// store_row(stats, row): results with one element per row. kOnlyRowResults: there are no others.
  static constexpr bool kHasRowResults = false, kOnlyRowResults = false;
  /// select(picks, stats, row), after all stages: picks.take() returns the row's largest column not
  /// yet taken, as often as the row has columns. ranked(kept): the values to compare.
  static constexpr bool kSelects = false;
  /// The operand whose elements ranked() returns unchanged; −1 if it computes.
  static constexpr int kRankedOperand = -1;
  /// fold(Fold<i>, kept, columns, stats, at): what an access's columns add to result i. Rows may be
  /// loaded again for it, so it reads only what load() and keep() provide, and Stats. What store()
  /// and the folds share may be a struct Ready, which ready(kept, columns, stats, at, unpack)
  /// returns: a CPU computes it once, and gives it to them in place of Kept.
  static constexpr int kFolds = 0;
  /// Accesses outside the row, which are zeros, change no reduction.
  static constexpr bool kZeroNeutral = false;
  /// Rows are written, or read, as 8-bit elements; a CPU compiles loops for these.
  static constexpr bool kByteResults = false, kByteRows = false;
  /// 8-bit results may be i8, not only f8.
  static constexpr bool kIntegerResults = true;
  /// Vectors over columns may be f32 where rows are 16-bit; a CPU compiles loops for it.
  static constexpr bool kWideColumns = false;
  /// Rows of f16 are rare, or the code is long: no CPU loops for f16. Nor are there any with folds.
  static constexpr bool kSeldomF16 = false;
  /// Bit i: keep() stores operand i; reload(Kept&, at) reads it where the row is read again.
  static constexpr uint32_t kStoredByKeep = 0;
  /// An operand: the one stage, over rows, sums the squares of its elements as they are in memory
  /// after keep(), and lost(Stage, total, call) says whether f32 lost what the sum must tell. They
  /// are then summed again in f64, one by one, and finalize_wide(Stage, stats, total, call)
  /// replaces finalize. accumulate() is a template over the part.
  static constexpr int kSquaresOf = -1;
  /// If Target::kKeeps: the last stage leaves in Kept what store() would compute again.
  static constexpr bool kRemembers = false;
  /// Over a cluster each block finalises the first of two stages by itself, with the Stats of its
  /// own columns: finalize_block(Stage<0>, stats, total, columns, call). After the second stage,
  /// moments(stats, total, columns, call) of all blocks are combined, and finalize(Stage<1>, stats,
  /// RowMoments, call) takes those of the row.
  static constexpr bool kBlocksApart = false;
  /// needs(Stage, options): whether a stage runs, depending on RowCall::options.
  static constexpr bool kOptionalStages = false;
  struct Columns {};
  struct Stats {};
  // Never called: kernels name them in discarded branches.
  template <typename... Any>
  DLBLAS_ROW RowEmpty partial(const Any&...) {
    return {};
  }
  template <typename... Any>
  DLBLAS_ROW void accumulate(const Any&...) {}
  template <typename... Any>
  DLBLAS_ROW void reload(const Any&...) {}
  template <typename... Any>
  DLBLAS_ROW bool lost(const Any&...) {
    return false;
  }
  template <typename... Any>
  DLBLAS_ROW void finalize_wide(const Any&...) {}
  template <typename... Any>
  DLBLAS_ROW void finalize_block(const Any&...) {}
  template <typename... Any>
  DLBLAS_ROW RowMoments moments(const Any&...) {
    return {};
  }
  template <typename... Any>
  DLBLAS_ROW void load_columns(const Any&...) {}
  template <typename... Any>
  DLBLAS_ROW void store_row(const Any&...) {}
  template <typename... Any>
  DLBLAS_ROW RowEmpty fold(const Any&...) {
    return {};
  }
  template <typename... Any>
  DLBLAS_ROW void select(const Any&...) {}
  template <typename... Any>
  DLBLAS_ROW constexpr bool needs(const Any&...) {
    return true;
  }
};

/// A column of a row and the value by which it was compared.
struct RowPicked {
  float value;
  int32_t column;
};

/// A row's columns as numbers that order them as they are taken, the largest first: NaN above all,
/// then by value (−0 is 0), equal ones from left to right. No two are equal; 0 means none.
struct RowRank {
  static constexpr uint64_t kNone = 0, kAbove = ~uint64_t{0};
  DLBLAS_ROW uint64_t of(float value, int32_t column) {
    auto bits = __builtin_bit_cast(uint32_t, value);
    if (value == 0) bits = 0;
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    if (value != value) bits = 0xfffffffeu;  // below kAbove in any column
    return static_cast<uint64_t>(bits) << 32 | ~static_cast<uint32_t>(column);
  }
  DLBLAS_ROW RowPicked picked(uint64_t rank) {
    auto bits = static_cast<uint32_t>(rank >> 32);
    bits = bits >> 31 ? bits & 0x7fffffffu : ~bits;
    return {__builtin_bit_cast(float, bits), static_cast<int32_t>(~static_cast<uint32_t>(rank))};
  }
};

/// An operand's elements in their memory layout.
template <typename Target, auto kOperand>
using RowWords = typename Target::template Words<decltype(kOperand)::index>;

}  // namespace dlblas
