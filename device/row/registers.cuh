// A row program with the row in registers: several rows a block, a row over a cluster, or, for
// programs that reduce no row, parts of a row as blocks of their own (tiles).
// One read and one write of everything. In: RowCall. Flow: call > validate > select > compile >
// [launch].  Read next: src/kernels/rows_cuda.cpp (who picks the configuration), passes.cuh.
#pragma once

#include "device/pdl.cuh"
#include "device/row/access.cuh"

namespace dlblas {

template <typename P>
constexpr bool reduces_rows() {
  for (int i = 0; i < P::kStages; ++i)
    if (P::kScopes[i] == kRowScope) return true;
  return false;
}

/// Does the last stage reduce groups of columns?
template <typename P>
constexpr bool has_groups() {
  return P::kStages > 0 && P::kScopes[P::kStages > 0 ? P::kStages - 1 : 0] == kGroupScope;
}

namespace detail {

/// What columns are compared by, in a kernel that holds at most kColumns of them.
template <typename P, RowTraits T, int kColumns>
constexpr bool has_short_ranks() {
  if constexpr (P::kRankedOperand < 0)
    return false;
  else
    return size_of(T.types[P::kRankedOperand]) == 2 && kColumns <= RowShortRank::kColumns;
}
template <typename P, RowTraits T, int kColumns>
using RankOf = typename RowPick<has_short_ranks<P, T, kColumns>(), RowShortRank, RowRank>::Type;

/// Is what a row knows kept for the kernel that folds it?
template <typename P>
constexpr bool leaves_stats() {
  return P::kFolds > 0 && P::kStages > 0;
}

/// Stage R over a row's threads and blocks.
template <typename P, RowConfig C, int R, typename Part, typename Threads, typename Blocks>
__device__ inline void finalize_stage(const Part& part, typename P::Stats& stats, Threads& threads,
                                      Blocks& blocks, const RowCall& call) {
  using Op = typename Part::Op;
  if constexpr (P::kScopes[R] == kThreadScope) {
    P::finalize(Stage<R>{}, stats, part.value(), call);
  } else if constexpr (C.cluster == 1) {
    P::finalize(Stage<R>{}, stats, threads.template all<Op>(part.value()), call);
  } else {
    const auto mine = threads.template all<Op>(part.value());
    P::finalize(Stage<R>{}, stats, blocks.template all<Op>(mine), call);
  }
}

/// Stage R over groups of columns: aligned lanes of a warp. One result an access.
template <typename P, RowTraits T, RowConfig C, int R, typename A>
__device__ inline void reduce_groups(typename P::Kept (&kept)[C.vectors],
                                     const typename P::Columns (&columns)[C.vectors],
                                     typename P::Stats& stats, const A& at) {
  using Part = decltype(P::partial(Stage<R>{}));
  using Op = typename Part::Op;
  constexpr int V = C.vectors, kLanes = T.group / T.n;
  static_assert(T.group == kLanes * T.n && kLanes >= 1 && kWarp % kLanes == 0 &&
                C.threads % kLanes == 0);
  typename Op::V v[V];
#pragma unroll
  for (int i = 0; i < V; ++i) {
    Part part = P::partial(Stage<R>{});
    P::accumulate(Stage<R>{}, part, kept[i], columns[i], stats, at(i));
    v[i] = part.value();
  }
#pragma unroll
  for (int d = kLanes / 2; d > 0; d /= 2)
#pragma unroll
    for (int i = 0; i < V; ++i) Op::combine_lane(v[i], d);
#pragma unroll
  for (int i = 0; i < V; ++i) P::finalize_group(Stage<R>{}, kept[i], v[i], at(i));
}

template <typename P, RowTraits T, RowConfig C, int R, typename A, typename Threads,
          typename Blocks>
__device__ inline void run_stage(typename P::Kept (&kept)[C.vectors],
                                 const typename P::Columns (&columns)[C.vectors],
                                 typename P::Stats& stats, const A& at, Threads& threads,
                                 Blocks& blocks, const RowCall& call) {
  if constexpr (P::kScopes[R] > 0) {
    reduce_groups<P, T, C, R>(kept, columns, stats, at);
  } else {
    auto part = P::partial(Stage<R>{});
#pragma unroll
    for (int i = 0; i < C.vectors; ++i)
      if (T.full || P::kZeroNeutral || at(i).holds)
        P::accumulate(Stage<R>{}, part, kept[i], columns[i], stats, at(i));
    finalize_stage<P, C, R>(part, stats, threads, blocks, call);
  }
}

}  // namespace detail

template <template <typename> class Program, RowTraits T, RowConfig C>
__global__ void __launch_bounds__(C.threads* C.rows, C.blocks)
    row_registers(const __grid_constant__ typename RowCallOf<T>::Type call) {
  constexpr int V = C.vectors, kColumns = V * C.threads * T.n;
  constexpr bool kGuard = !T.full || (V > 4 && V <= 8);
  constexpr Cache kCache = C.evict_last ? Cache::kLast : Cache::kDefault;
  using A = RowAccess<T, kCache, C.early, kGuard>;
  using P = Program<DeviceTarget<T, C, A, true>>;
  constexpr bool kTiled = !reduces_rows<P>();
  // A thread's accesses lie at the same columns of several heads.
  constexpr int kHeadWidth = T.shape.head_width;
  constexpr bool kSameColumns =
      kHeadWidth > 0 && C.threads * T.n % (kHeadWidth ? kHeadWidth : 1) == 0;
  static_assert(P::kHasHeads == (kHeadWidth > 0));
  static_assert(!kTiled || C.cluster == 1);
  using Threads = RowReduce<C.threads>;
  __shared__ double slots[C.rows * Threads::kSlots + 1];
  __shared__ typename ClusterReduce<C.cluster>::Shared parts;
  const int local = C.rows == 1 ? 0 : threadIdx.x / C.threads, thread = threadIdx.x % C.threads;
  uint32_t block = blockIdx.x;
  int part = 0;
  if constexpr (C.cluster > 1) part = static_cast<int>(cluster_rank()), block /= C.cluster;
  if constexpr (kTiled)
    block = blockIdx.x / call.tiles, part = static_cast<int>(blockIdx.x - block * call.tiles);
  const int first = part * kColumns + thread * T.n;
  Threads threads(slots + local * Threads::kSlots, 1 + local, thread);
  ClusterReduce<C.cluster> blocks(parts, threadIdx.x);
  wait_for_dependencies();
  launch_dependents();
  const int64_t index = static_cast<int64_t>(block) * C.rows + local;
  const bool mine = C.rows == 1 || index < call.rows;
  const RowPlace<T> row(call, mine ? index : call.rows - 1);
  const bool written = mine && !row.skipped();
  const auto at = [&](int i) {
    const int step = i * C.threads * T.n;
    const bool holds = T.full || first + step < call.width;
    return A{row, first, step, holds, holds && written};
  };
  typename P::Columns columns[V];
  const auto load_columns = [&] {
    if constexpr (P::kHasColumns) {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        if (kSameColumns && i > 0)
          columns[i] = columns[0];
        else
          P::load_columns(columns[i], at(i));
      }
    }
  };
  if constexpr (C.early && !P::kColumnsAfterRow) load_columns();
  typename P::Loaded loaded[V];
#pragma unroll
  for (int i = 0; i < V; ++i) P::load(loaded[i], at(i));
  if constexpr (C.early && P::kColumnsAfterRow) load_columns();
  // Never: it keeps the loads above it above the reductions. ptxas moves nothing over a branch.
  if constexpr (P::kHasColumns && C.early)
    if (call.rows < 0) asm volatile("trap;");
  blocks.start();
  typename P::Kept kept[V];
#pragma unroll
  for (int i = 0; i < V; ++i) P::keep(kept[i], loaded[i], at(i));
  typename P::Stats stats;
  if constexpr (!C.early && P::kColumnsStage == 0) load_columns();
  if constexpr (P::kStages > 0)
    detail::run_stage<P, T, C, 0>(kept, columns, stats, at, threads, blocks, call);
  if constexpr (!C.early && P::kColumnsStage == 1) load_columns();
  if constexpr (P::kStages > 1)
    detail::run_stage<P, T, C, 1>(kept, columns, stats, at, threads, blocks, call);
  if constexpr (!C.early && P::kColumnsStage == 2) load_columns();
  if constexpr (P::kStages > 2)
    detail::run_stage<P, T, C, 2>(kept, columns, stats, at, threads, blocks, call);
  if constexpr (P::kSelects) {
    static_assert(C.cluster == 1, "a row's threads are one block's");
    using Rank = detail::RankOf<P, T, kColumns>;
    using Place = typename RankOp<Rank>::V;
    // Made once where registers hold them.
    constexpr bool kMade = V * T.n * sizeof(Place) <= 128;
    Place made[kMade ? V : 1][T.n];
    if constexpr (kMade)
#pragma unroll
      for (int i = 0; i < V; ++i)
        rank_columns<Rank>(made[i], P::ranked(kept[i]), at(i).column(), at(i).holds);
    const auto next = [&](Place below) {
      Place best = Rank::kNone;
#pragma unroll
      for (int i = 0; i < V; ++i) {
        if constexpr (!kMade)
          rank_columns<Rank>(made[0], P::ranked(kept[i]), at(i).column(), at(i).holds);
        best = first_below(made[kMade ? i : 0], below, best);
      }
      return threads.template all<RankOp<Rank>>(best);
    };
    RowPicks<Rank, decltype(next)> picks{next, thread, C.threads, written};
    P::select(picks, stats, row);
  }
  if (!written) return;
  if constexpr (P::kHasRowResults)
    if (thread == 0 && part == 0) P::store_row(stats, row);
  if constexpr (detail::leaves_stats<P>())
    if (thread == 0 && part == 0) static_cast<typename P::Stats*>(call.folds.stats)[index] = stats;
  if constexpr (!P::kOnlyRowResults) {
    if constexpr (!C.early && P::kColumnsStage > 2) load_columns();
#pragma unroll
    for (int i = 0; i < V; ++i) {
      A last = at(i);
      last.writes = last.holds;  // a row to write, as is known here
      P::store(kept[i], columns[i], stats, last);
    }
  }
}

}  // namespace dlblas
