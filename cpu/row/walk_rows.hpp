// Runs a row program on a CPU with code for the types of the call: the first that fit it, else the
// code for any types. Included by the files that the build makes of every *_program.hpp, one per
// instruction set. In: RowJob, a range of units. Flow: call > validate > select > compile >
// [launch]. Read next: cpu/row/walk.hpp (the loops), src/kernels/rows_cpu.cpp (what calls it).
#pragma once

#include <new>

#include "cpu/row/walk.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Are the call's elements at columns of these types, and contiguous?
template <typename Types>
bool fits(const RowJob& job) {
  if constexpr (!Types::kKnown) {
    return true;
  } else {
    if (job.at_columns == 0) return false;
    for (int i = 0; i < job.operands; ++i) {
      if (!(job.at_columns >> i & 1u)) continue;
      const DType type = job.written >> i & 1u   ? Types::kOut
                         : job.rows_of >> i & 1u ? Types::kIn
                                                 : Types::kColumn;
      if (job.types[i] != type || job.call.operands[i].column != 1) return false;
    }
    return job.paired == Types::kPaired && job.short_nans == Types::kShortNans;
  }
}

/// Units [begin, end); short rows are read one ahead of the one that is written. `scratch`: one
/// access after the other, for two short rows, or null.
template <typename Walker>
void walk_units(const RowJob& job, int64_t begin, int64_t end, typename Walker::Kept* scratch) {
  const int lag = Walker::reads_ahead(job) && end - begin > 1 ? 1 : 0;
  Walker first(job, scratch, lag);
  alignas(Walker) unsigned char other[sizeof(Walker)];
  Walker* walkers[2] = {&first, &first};
  if (lag) {
    walkers[1] = new (other) Walker(job, scratch ? scratch + kShortRow / kRowStep : nullptr, lag);
  }
  for (int64_t unit = begin; unit < end + lag; ++unit) {
    if (unit < end) walkers[unit & lag]->read(unit);
    if (unit - lag >= begin) walkers[(unit - lag) & lag]->write();
  }
}

/// False if not compiled for these types. For known types, long rows of a program that remembers
/// are not compiled: only usual rows are worth the code.
template <template <typename> class Program, typename Types>
bool walk_typed(const RowJob& job, int64_t begin, int64_t end) {
  using Keeping = RowWalker<Program, true, Types>;
  using Kept = typename Keeping::Kept;
  constexpr int64_t kMax = kRowScratchBytes / static_cast<int>(sizeof(Kept));
  static_assert(2 * kShortRow <= kMax * kRowStep);
  if constexpr (Keeping::Wide::kRemembers) {
    if (job.call.width <= kMax * kRowStep) {
      alignas(64) Kept scratch[kMax];
      walk_units<Keeping>(job, begin, end, scratch);
      return true;
    }
  }
  if constexpr (Keeping::Wide::kRemembers && Types::kKnown) return false;
  walk_units<RowWalker<Program, false, Types>>(job, begin, end, nullptr);
  return true;
}
/// Uses the first types that fit the call; AnyTypes come last.
template <template <typename> class Program, typename... Types>
void walk_one_of(const RowJob& job, int64_t begin, int64_t end) {
  static_cast<void>(((fits<Types>(job) && walk_typed<Program, Types>(job, begin, end)) || ...));
}

/// Without an instruction that converts f16, its loops are slow anyway, and long.
#if defined(__AVX2__)
constexpr bool kSlowF16 = false;
#else
constexpr bool kSlowF16 = true;
#endif

template <template <typename> class Program>
void walk_rows(const RowJob& job, int64_t begin, int64_t end) {
  using Any = typename RowWalker<Program, false, AnyTypes>::Wide;
  constexpr auto kF32 = DType::kF32, kF16 = DType::kF16, kBF16 = DType::kBF16,
                 kE4M3 = DType::kF8E4M3, kI8 = DType::kI8;
  if constexpr (Any::kHasHeads)
    walk_one_of<Program, RowTypes<kF32, kF32>, RowTypes<kBF16, kBF16>, AnyTypes>(job, begin, end);
  else if constexpr (Any::kByteResults && Any::kStoredByKeep != 0)  // results of two types
    walk_one_of<Program, AnyTypes>(job, begin, end);
  else if constexpr (Any::kByteResults && !Any::kIntegerResults && kSlowF16)
    walk_one_of<Program, RowTypes<kF32, kE4M3>, RowTypes<kBF16, kE4M3>, AnyTypes>(job, begin, end);
  else if constexpr (Any::kByteResults && !Any::kIntegerResults)
    walk_one_of<Program, RowTypes<kF32, kE4M3>, RowTypes<kBF16, kE4M3>, RowTypes<kF16, kE4M3>,
                AnyTypes>(job, begin, end);
  else if constexpr (Any::kByteResults)
    walk_one_of<Program, RowTypes<kF32, kE4M3>, RowTypes<kBF16, kE4M3>, RowTypes<kF32, kI8>,
                RowTypes<kBF16, kI8>, RowTypes<kF16, kE4M3>, AnyTypes>(job, begin, end);
  else if constexpr (Any::kByteRows)
    walk_one_of<Program, RowTypes<kE4M3, kF32>, RowTypes<kE4M3, kBF16>, RowTypes<kI8, kF32>,
                RowTypes<kI8, kBF16>, AnyTypes>(job, begin, end);
  else if constexpr (Any::kWideColumns && kSlowF16)
    walk_one_of<Program, RowTypes<kF32, kF32>, RowTypes<kBF16, kBF16>, RowTypes<kBF16, kBF16, kF32>,
                AnyTypes>(job, begin, end);
  else if constexpr (Any::kWideColumns)
    walk_one_of<Program, RowTypes<kF32, kF32>, RowTypes<kBF16, kBF16>, RowTypes<kF16, kF16>,
                RowTypes<kBF16, kBF16, kF32>, RowTypes<kF16, kF16, kF32>, AnyTypes>(job, begin,
                                                                                    end);
  else if constexpr (Any::kFolds > 0 || Any::kSeldomF16 || kSlowF16)
    walk_one_of<Program, RowTypes<kF32, kF32>, RowTypes<kBF16, kBF16>, AnyTypes>(job, begin, end);
  else
    walk_one_of<Program, RowTypes<kF32, kF32>, RowTypes<kBF16, kBF16>, RowTypes<kF16, kF16>,
                AnyTypes>(job, begin, end);
  // Other threads may read the results as soon as this task has ended.
  if (job.stream) stream_fence();
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
