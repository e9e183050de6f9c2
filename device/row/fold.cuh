// Results over columns that a row program sums over all rows (Fold<i>), such as a weight's
// gradient. The row walk has left its Stats; here the rows are read again, down the columns.
//   row_fold: a block takes a tile of columns and a part of the rows. A thread adds at most
//   kMaxFoldedRows terms in f32; then the threads of the same columns are added: partial sums.
//   row_fold_parts: adds those in f64, in order.
// Rows of one phase (RowFolds::period) make one row of a result. Results over groups of columns
// need no second read: the row walk leaves terms of its own (store_group_terms), which
// row_fold_groups adds up in f64. No atomics: the order depends only on sizes. In: RowCall, its
// `folds` filled. Out: the results. Read next: src/kernels/row_fold.hpp (cuts the rows),
// registers.cuh.
#pragma once

#include "device/row/grid.cuh"
#include "device/row/passes.cuh"

namespace dlblas {
namespace detail {

/// The operand of result `fold`, among those whose bits are set.
constexpr int folded_operand(uint32_t folded, int fold) {
  int i = 0;
  for (; i < kMaxRowOperands; ++i)
    if ((folded >> i & 1u) && fold-- == 0) break;
  return i;
}

template <typename P, int kFold = 0, int kFolds, typename V, typename A>
__device__ inline void add_terms(V (&sums)[kFolds], const typename P::Kept& kept,
                                 const typename P::Columns& columns, const typename P::Stats& stats,
                                 const A& at) {
  if constexpr (kFold < kFolds) {
    if constexpr (requires { P::add(Fold<kFold>{}, sums[kFold], kept, stats, at); })
      P::add(Fold<kFold>{}, sums[kFold], kept, stats, at);
    else
      sums[kFold] = sums[kFold] + P::fold(Fold<kFold>{}, kept, columns, stats, at);
    add_terms<P, kFold + 1>(sums, kept, columns, stats, at);
  }
}

/// Loads an access of a row again, as the program keeps it; writes nothing.
template <typename P, typename A>
__device__ inline void load_again(typename P::Kept& kept, const A& at) {
  if constexpr (P::kStoredByKeep != 0) {
    P::reload(kept, at);
  } else {
    typename P::Loaded loaded;
    P::load(loaded, at);
    P::keep(kept, loaded, at);
  }
}

}  // namespace detail

/// A block takes C.threads accesses of a row, C.rows rows at a time.
template <template <typename> class Program, RowTraits T, RowConfig C>
__global__ void __launch_bounds__(C.threads* C.rows)
    row_fold(const __grid_constant__ typename RowCallOf<T>::Type call) {
  constexpr int N = T.n, kColumns = C.threads * N;
  using A = RowAccess<T, Cache::kDefault, false, true>;
  using P = Program<DeviceTarget<T, C, A, false>>;
  using Stats = typename P::Stats;
  static_assert(!T.full && T.shape.head_width == 0 && T.shape.indices == 0 && !P::kColumnsAfterRow);
  static_assert(P::kFolds > 0 && sizeof(Stats) <= kMaxRowStats);
  static_assert(detail::folded_operand(T.folded, P::kFolds - 1) < kMaxRowOperands &&
                    detail::folded_operand(T.folded, P::kFolds) == kMaxRowOperands,
                "results [C] are the program's folds");
  __shared__ float others[C.rows > 1 ? C.rows : 1][C.rows > 1 ? kColumns : 1];
  const int local = threadIdx.x / C.threads, thread = threadIdx.x % C.threads;
  const uint32_t part = blockIdx.x / call.tiles, tile = blockIdx.x - part * call.tiles;
  const uint32_t period = static_cast<uint32_t>(call.folds.period);
  const uint32_t chunk = part / period, phase = part - chunk * period;
  const int first = static_cast<int>(tile) * kColumns + thread * N;
  const bool holds = first < call.width;
  wait_for_dependencies();
  launch_dependents();
  const int64_t share = static_cast<int64_t>(call.folds.rows) * C.rows, begin = chunk * share;
  const int64_t end = detail::least(begin + share, detail::rows_of_phase(call, phase));
  typename P::Columns columns;
  if constexpr (P::kHasColumns) {
    const RowPlace<T> row(call, detail::least(begin * period + phase, call.rows - 1));
    P::load_columns(columns, A{row, first, 0, holds, false});
  }
  Values<N> sums[P::kFolds];
#pragma unroll
  for (Values<N>& sum : sums) sum = Values<N>(0.0f);
  constexpr int kUnroll = T.nested ? 1 : 4;
#pragma unroll kUnroll
  for (int64_t i = begin + local; i < end; i += C.rows) {
    const int64_t r = i * period + phase;
    const RowPlace<T> row(call, r);
    const A at = {row, first, 0, holds, false};
    typename P::Kept kept;
    detail::load_again<P>(kept, at);
    Stats stats;
    if constexpr (detail::leaves_stats<P, T>())
      stats = static_cast<const Stats*>(call.folds.stats)[r];
    detail::add_terms<P>(sums, kept, columns, stats, at);
  }
#pragma unroll
  for (int i = 0; i < P::kFolds; ++i) {
    if constexpr (C.rows > 1) {
      if (i > 0) __syncthreads();
#pragma unroll
      for (int j = 0; j < N; ++j) others[local][thread * N + j] = sums[i].v[j];
      __syncthreads();
      if (local == 0)
#pragma unroll 1
        for (int other = 1; other < C.rows; ++other)
#pragma unroll
          for (int j = 0; j < N; ++j) sums[i].v[j] += others[other][thread * N + j];
    }
    if (local == 0 && holds)
      store_vec<DType::kF32, N>(call.folds.partials,
                                (static_cast<int64_t>(part) * P::kFolds + i) * call.width + first,
                                rounded<DType::kF32>(sums[i]));
  }
}

inline constexpr int kRowFoldColumns = 32, kRowFoldParts = 32;

namespace detail {
/// Stores one element of result `fold`, a number that the compiler does not know.
template <RowTraits T, int kFold = 0>
__device__ inline void store_folded(const RowCall& call, int fold, int64_t phase, int64_t column,
                                    float value) {
  constexpr int kOperand = folded_operand(T.folded, kFold);
  if constexpr (kOperand < kMaxRowOperands) {
    if (fold != kFold) return store_folded<T, kFold + 1>(call, fold, phase, column, value);
    constexpr DType kType = T.types[kOperand];
    constexpr int kAlign = T.aligned ? size_of(kType) : 1;
    const RowOperand& o = call.operands[kOperand];
    store_vec<kType, 1, kAlign>(o.data, phase * o.head + column * o.column,
                                rounded<kType>(Values<1>(value)));
  }
}
}  // namespace detail

/// A block takes kRowFoldColumns columns of one phase, of the result blockIdx.y.
template <RowTraits T>
__global__ void __launch_bounds__(kRowFoldColumns* kRowFoldParts)
    row_fold_parts(const __grid_constant__ RowCall call) {
  static_assert(kRowFoldColumns == kWarp && kRowFoldParts == kWarp);
  __shared__ double sums[kRowFoldParts][kRowFoldColumns + 1];
  const int here = threadIdx.x % kRowFoldColumns, local = threadIdx.x / kRowFoldColumns;
  const uint32_t tiles =
      (static_cast<uint32_t>(call.width) + kRowFoldColumns - 1) / kRowFoldColumns;
  const uint32_t phase = blockIdx.x / tiles, tile = blockIdx.x - phase * tiles;
  const int64_t first = static_cast<int64_t>(tile) * kRowFoldColumns, width = call.width;
  const int64_t period = call.folds.period;
  wait_for_dependencies();
  launch_dependents();
  double sum = 0;
  if (first + here < width)
#pragma unroll 4
    for (int64_t part = local * period + phase; part < call.folds.parts;
         part += kRowFoldParts * period)
      sum += call.folds.partials[(part * gridDim.y + blockIdx.y) * width + first + here];
  sums[local][here] = sum;
  __syncthreads();
  // Transposed, so that each warp has the parts of one column.
  const double total = warp_sum(sums[here][local]);
  if (here == 0 && first + local < width)
    detail::store_folded<T>(call, blockIdx.y, phase, first + local, static_cast<float>(total));
}

/// A warp takes one group of columns of one phase, of the result blockIdx.y: the terms that
/// store_group_terms left, in f64.
template <RowTraits T>
__global__ void __launch_bounds__(256) row_fold_groups(const __grid_constant__ RowCall call) {
  constexpr int kWarps = 256 / kWarp, kColumns = T.fold_lanes * T.n;  // of a slot
  const int lane = threadIdx.x % kWarp;
  const uint32_t groups =
      T.group == 0 ? 1 : (static_cast<uint32_t>(call.width) + T.group - 1) / T.group;
  const uint32_t period = static_cast<uint32_t>(call.folds.period);
  const uint32_t at = blockIdx.x * kWarps + threadIdx.x / kWarp;
  if (at >= groups * period) return;
  const uint32_t phase = at / groups, group = at - phase * groups;
  const int slots = call.folds.slots, most = T.group == 0 ? slots : T.group / kColumns;
  const int first = static_cast<int>(group) * most;
  const int each = detail::smaller(most, slots - first);
  const int64_t rows = detail::rows_of_phase(call, phase);
  wait_for_dependencies();
  launch_dependents();
  double sum = 0;
  // Lanes take neighbouring slots; where a group has fewer than lanes, those of several rows.
  const int across = detail::smaller(each, kWarp), together = kWarp / across;
  if (lane < across * together)
    for (int64_t i = lane / across; i < rows; i += together) {
      const float* from =
          call.folds.partials + ((i * period + phase) * gridDim.y + blockIdx.y) * slots + first;
#pragma unroll 4
      for (int slot = lane % across; slot < each; slot += across) sum += from[slot];
    }
  const double total = warp_sum(sum);
  if (lane == 0) detail::store_folded<T>(call, blockIdx.y, phase, group, static_cast<float>(total));
}

}  // namespace dlblas
