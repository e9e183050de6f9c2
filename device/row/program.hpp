// What a row program is: an operator that maps or reduces rows, as a struct of functions. It says
// what an access loads, what of it stays, what is reduced in which scope, and what is stored; it
// has no loops, barriers, masks or thread addresses. g++ compiles the same text once per
// instruction set (cpu/row/walk.hpp), NVRTC once per traits and configuration
// (device/row/registers.cuh, passes.cuh).
//
//   template <typename Target>
//   struct Scaled : RowProgram {                      // y = x / max |x|
//     static constexpr Operand<0> kX{};               // positions in RowCall::operands
//     static constexpr Operand<1> kY{};
//     static constexpr int kStages = 1;
//     static constexpr int kScopes[] = {kRowScope};
//     struct Loaded { RowWords<Target, kX> x; };      // what an access brings from memory
//     using Kept = Loaded;                            // what of it stays between stages
//     struct Stats { float factor; };                 // what a row knows
//     DLBLAS_ROW void load(Loaded& in, Access at) { in.x = at.load(kX); }
//     DLBLAS_ROW void keep(Kept& kept, const Loaded& in, Access) { kept = in; }
//     DLBLAS_ROW Max<Target> partial(Stage<0>) { return {}; }
//     DLBLAS_ROW void accumulate(Stage<0>, Max<Target>& max, Kept& kept, …) { max.add_abs(…); }
//     DLBLAS_ROW void finalize(Stage<0>, Stats& s, float max, const RowCall&) { … }
//     DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats& s, Access at) { … }
//   };
//
// Functions that a program must have: load, keep, store; per stage partial, accumulate, finalize.
// What it may have, with its constant in RowProgram: load_columns, store_row, finalize_group,
// reload. Read next: ops/activation/silu_and_mul/silu_and_mul_program.hpp, ops/norm/softmax/.
#pragma once

#include "device/row/call.hpp"

// A function of a program. Forced inline also at -O0: vectors stay in registers.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define DLBLAS_ROW __device__ static __forceinline__
#else
#define DLBLAS_ROW __attribute__((always_inline)) static inline
#endif

namespace dlblas {

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

/// Over whom a stage reduces: a row, what one thread holds of it (on a CPU: a row, too), or, as a
/// positive number, groups of that many columns.
inline constexpr int kRowScope = 0, kThreadScope = -1;

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
  /// load_columns(Columns&, at): vectors over columns, the same for all rows (a weight), or found
  /// through a table. kColumnsStage: the first stage that reads them; 3: store alone does.
  /// kColumnsAfterRow: they are loaded after the row, since their address is itself loaded.
  static constexpr bool kHasColumns = false, kColumnsAfterRow = false;
  static constexpr int kColumnsStage = 3;
  /// store_row(stats, row): results with one element a row. kOnlyRowResults: there are no others.
  static constexpr bool kHasRowResults = false, kOnlyRowResults = false;
  /// Accesses outside the row, as zeros, change no reduction.
  static constexpr bool kZeroNeutral = false;
  /// keep() stores: reload(Kept&, at) reads what it kept where the row is read again.
  static constexpr bool kHasReload = false;
  /// Where Target::kKeeps: the last stage leaves in Kept what store() would compute again.
  static constexpr bool kRemembers = false;
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
  DLBLAS_ROW void load_columns(const Any&...) {}
  template <typename... Any>
  DLBLAS_ROW void store_row(const Any&...) {}
};

/// An operand's elements as memory holds them.
template <typename Target, auto kOperand>
using RowWords = typename Target::template Words<decltype(kOperand)::index>;

}  // namespace dlblas

#if defined(__CUDACC_RTC__)
#include "device/row/passes.cuh"
#endif
