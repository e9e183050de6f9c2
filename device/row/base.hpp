// The names that row programs and their skeletons share: operands, stages, scopes, and what a
// program may leave out. Programs include device/row/program.hpp, which says how one is written.
// Read next: device/row/program.hpp.
#pragma once

#include "device/row/call.hpp"

// A function of a program, and a lambda's attribute. Forced inline also at -O0: vectors stay in
// registers.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define DLBLAS_ROW __device__ static __forceinline__
#define DLBLAS_ROW_LAMBDA
#else
#define DLBLAS_ROW __attribute__((always_inline)) static inline
#define DLBLAS_ROW_LAMBDA __attribute__((always_inline))
#endif

namespace dlblas {

/// Are Access::option's known when a program is compiled? A CPU's choose at run time: what costs
/// little is done there whatever they say.
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

/// A reduction of the program, in order; each sees the Stats of those before it.
template <int kIndex>
struct Stage {
  static constexpr int index = kIndex;
};

/// A result over columns that is added up over all rows, in the order of the program's operands.
template <int kIndex>
struct Fold {
  static constexpr int index = kIndex;
};

/// Over what a stage reduces: a row, or groups of neighbouring columns, as many as the call says. A
/// stage over groups is the last one.
inline constexpr int kRowScope = 0, kGroupScope = 1;

/// Of columns: their mean and Σ(x − mean)², in f64.
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

/// Defaults of what a program may leave out.
struct RowProgram {
  static constexpr int kStages = 0;
  static constexpr int kScopes[] = {kRowScope};
  /// Rows are heads (RowShape): column() counts from a head's first.
  static constexpr bool kHasHeads = false;
  /// load_columns(Columns&, at): vectors over columns, the same for all rows (a weight) or for all
  /// heads of one (a table's row). kColumnsStage: the first stage that reads them; 3: store alone
  /// does. kColumnsAfterRow: they are loaded after the row, since their address is itself loaded.
  static constexpr bool kHasColumns = false, kColumnsAfterRow = false;
  static constexpr int kColumnsStage = 3;
  /// load_columns() costs more than a head: a CPU makes it once for all heads, without stages.
  static constexpr bool kColumnsOnce = false;
  /// finalize_group(Stage, Kept&, total, at): what a group's total changes in each of its accesses.
  /// Kept may be loaded again before, or after: a CPU calls it once per group, so it reads nothing
  /// that keep() sets, and keep() leaves what it sets.
  /// store_row(stats, row): results with one element per row. kOnlyRowResults: there are no others.
  static constexpr bool kHasRowResults = false, kOnlyRowResults = false;
  /// select(picks, stats, row), after all stages: picks.take() is the row's largest column that was
  /// not taken yet, as often as the row has columns. ranked(kept): what they are compared by.
  static constexpr bool kSelects = false;
  /// The operand whose elements ranked() returns as they are; −1 where it computes.
  static constexpr int kRankedOperand = -1;
  /// fold(Fold<i>, kept, columns, stats, at): what an access's columns add to result i. Rows may be
  /// loaded again for it, so it reads what load() and keep() bring, and Stats.
  static constexpr int kFolds = 0;
  /// Accesses outside the row, as zeros, change no reduction.
  static constexpr bool kZeroNeutral = false;
  /// Rows are written, or read, as 8-bit elements: what a CPU compiles loops for.
  static constexpr bool kByteResults = false, kByteRows = false;
  /// 8-bit results may be i8, not f8 alone.
  static constexpr bool kIntegerResults = true;
  /// Vectors over columns may be f32 where rows have 16 bits: a CPU compiles loops for it.
  static constexpr bool kWideColumns = false;
  /// Rows of f16 are rare, or code is long: a CPU compiles no loops for them. So it is with folds.
  static constexpr bool kSeldomF16 = false;
  /// Bit i: keep() stores operand i; reload(Kept&, at) reads it where the row is read again.
  static constexpr uint32_t kStoredByKeep = 0;
  /// Operand: the one stage, over rows, adds up the squares of its elements as they lie in memory
  /// when keep() is done; and lost(Stage, total, call) says whether f32 lost what the sum must
  /// tell. They are then added up again in f64, one by one, and finalize_wide(Stage, stats, total,
  /// call) takes the place of finalize. accumulate() is a template on the part.
  static constexpr int kSquaresOf = -1;
  /// Where Target::kKeeps: the last stage leaves in Kept what store() would compute again.
  static constexpr bool kRemembers = false;
  /// Over a cluster each block finalizes the first of two stages by itself, with the Stats of its
  /// own columns: finalize_block(Stage<0>, stats, total, columns, call). Behind the second one,
  /// moments(stats, total, columns, call) of all blocks meet, and finalize(Stage<1>, stats,
  /// RowMoments, call) takes those of the row.
  static constexpr bool kBlocksApart = false;
  /// needs(Stage, options): whether a stage runs, by RowCall::options.
  static constexpr bool kOptionalStages = false;
  struct Columns {};
  struct Stats {};
  // Never called: kernels name them in branches that are left out.
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

/// A column of a row and what it was compared by.
struct RowPicked {
  float value;
  int32_t column;
};

/// A row's columns as numbers in the order in which they are taken, the first the largest: NaN
/// above all, then by value (−0 is 0), equal ones from left to right. No two are equal; 0 is none.
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

/// An operand's elements as memory holds them.
template <typename Target, auto kOperand>
using RowWords = typename Target::template Words<decltype(kOperand)::index>;

}  // namespace dlblas
