// A row program with the row in registers: several rows per block, a row over a cluster, or, for
// programs that reduce no row, parts of a row as blocks of their own (tiles).
// Reads and writes everything once. In: RowCall. Flow: call > validate > select > compile >
// [launch]. Read next: src/kernels/rows_cuda.cpp (picks the configuration), passes.cuh.
#pragma once

#include "device/pdl.cuh"
#include "device/row/select.cuh"

namespace dlblas {

template <typename P>
constexpr bool reduces_rows() {
  for (int i = 0; i < P::kStages; ++i)
    if (P::kScopes[i] == kRowScope) return true;
  return P::kSelects;
}

/// True if the last stage reduces groups of columns.
template <typename P>
constexpr bool has_groups() {
  return P::kStages > 0 && P::kScopes[P::kStages > 0 ? P::kStages - 1 : 0] == kGroupScope;
}

namespace detail {

/// True if a row's Stats are kept for the kernel that folds it.
template <typename P>
constexpr bool leaves_stats() {
  return P::kFolds > 0 && P::kStages > 0;
}

/// The sum of squares of an operand's columns, `first` to before `end`, in f64, in every thread
/// that shares them: each warp reads them all, one by one: correct, a hundred times slower, little
/// code. Results may overwrite rows, so no thread goes on before all have read.
template <int kIndex, RowTraits T, RowConfig C, typename Threads>
__device__ inline double squares_wide(const RowPlace<T>& row, int first, int end,
                                      const Threads& threads) {
  constexpr DType kType = T.types[kIndex];
  constexpr int kLanes = C.threads < kWarp ? 1 : kWarp, kAlign = T.aligned ? size_of(kType) : 1;
  static_assert(!T.strided);
  const char* from = row.template base<kIndex>();
  threads.meet();
  double sum = 0;
#pragma unroll 1
  for (int c = first + static_cast<int>(threadIdx.x) % kLanes; c < end; c += kLanes) {
    const double v = values(load_vec<kType, 1, kAlign>(from, c)).v[0];
    sum += v * v;
  }
  if constexpr (kLanes > 1) sum = warp_sum_in_loop(sum);
  threads.meet();
  return sum;
}

/// Columns of a block of a cluster: its own, and the most of any block.
struct BlockColumns {
  int own, most;
};

/// Stage R over a row's threads and blocks; each thread has a part. `wide`: the block's part in
/// f64, in every thread.
template <typename P, RowConfig C, int R, typename Op, typename Threads, typename Blocks,
          typename Wide>
__device__ inline void finalize_stage(typename Op::V part, typename P::Stats& stats,
                                      Threads& threads, Blocks& blocks, const BlockColumns& columns,
                                      const RowCall& call, const Wide& wide) {
  constexpr bool kCluster = C.cluster > 1;
  const typename Op::V mine = threads.template all<Op>(part);
  if constexpr (kCluster && P::kBlocksApart) {
    static_assert(P::kStages == 2 && P::kSquaresOf < 0);
    if constexpr (R == 0)
      P::finalize_block(Stage<R>{}, stats, mine, columns.own, call);
    else
      P::finalize(
          Stage<R>{}, stats,
          blocks.moments(P::moments(stats, mine, columns.own, call), columns.most, call.width),
          call);
  } else if constexpr (P::kSquaresOf < 0) {
    if constexpr (kCluster)
      P::finalize(Stage<R>{}, stats, blocks.template all<Op>(mine), call);
    else
      P::finalize(Stage<R>{}, stats, mine, call);
  } else if constexpr (!kCluster && sizeof mine == sizeof(float)) {
    if (P::lost(Stage<R>{}, mine, call))
      P::finalize_wide(Stage<R>{}, stats, wide(), call);
    else
      P::finalize(Stage<R>{}, stats, mine, call);
  } else {
    double total = mine;
    if constexpr (sizeof mine < sizeof total)
      if (P::lost(Stage<R>{}, mine, call)) total = wide();
    if constexpr (kCluster) total = blocks.template all<WideSumOp>(total);
    if (P::lost(Stage<R>{}, total, call))
      P::finalize_wide(Stage<R>{}, stats, total, call);
    else
      P::finalize(Stage<R>{}, stats, static_cast<float>(total), call);
  }
}

/// False: a call has rows. With kTouch it reads words from all lines of the call that are needed
/// after the reductions, so that they reach the constant cache while the row's loads are under way:
/// a miss in the middle of a reduction costs 0.05 µs (rms_norm 1×4096: 1.48 µs, 1.44 without it).
template <RowTraits T, bool kTouch>
__device__ __forceinline__ bool is_negative(const RowCall& call) {
  if constexpr (!kTouch) return call.rows < 0;
  const auto high = [](int64_t word) { return static_cast<int32_t>(word >> 32); };
  int32_t words = __float_as_int(call.f[0]) ^ __float_as_int(call.f[5]);
#pragma unroll
  for (int i = 0; i < T.operands; ++i) words ^= high(call.operands[i].row);
  return (high(call.rows) & words) < 0;
}

/// Lanes that a group of columns takes: a power of 2; the last ones may have no columns.
constexpr int lanes_of_group(int lanes) {
  int padded = 1;
  while (padded < lanes) padded *= 2;
  return padded;
}

/// Stage R over groups of columns: aligned lanes of a warp. One result per access.
template <typename P, RowTraits T, RowConfig C, int R, typename A>
__device__ inline void reduce_groups(typename P::Kept (&kept)[C.vectors],
                                     const typename P::Columns (&columns)[C.vectors],
                                     typename P::Stats& stats, const A& at) {
  using Part = decltype(P::partial(Stage<R>{}));
  using Op = typename Part::Op;
  constexpr int V = C.vectors, kLanes = lanes_of_group(T.group / T.n);
  static_assert(T.group % T.n == 0 && T.group >= T.n && kLanes <= kWarp && C.threads % kLanes == 0);
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
          typename Blocks, typename Wide>
__device__ inline void run_stage(typename P::Kept (&kept)[C.vectors],
                                 const typename P::Columns (&columns)[C.vectors],
                                 typename P::Stats& stats, const A& at, Threads& threads,
                                 Blocks& blocks, const BlockColumns& share, const RowCall& call,
                                 const Wide& wide) {
  constexpr bool kNeeded = !P::kOptionalStages || P::needs(Stage<R>{}, T.options);
  if constexpr (!kNeeded) return;
  if constexpr (P::kScopes[R] > 0) {
    reduce_groups<P, T, C, R>(kept, columns, stats, at);
  } else {
    auto part = P::partial(Stage<R>{});
#pragma unroll
    for (int i = 0; i < C.vectors; ++i)
      if (T.full || P::kZeroNeutral || at(i).holds)
        P::accumulate(Stage<R>{}, part, kept[i], columns[i], stats, at(i));
    finalize_stage<P, C, R, typename decltype(part)::Op>(part.value(), stats, threads, blocks,
                                                         share, call, wide);
  }
}

}  // namespace detail

template <template <typename> class Program, RowTraits T, RowConfig C>
__global__ void __launch_bounds__(C.threads* C.rows, C.blocks)
    row_registers(const __grid_constant__ typename RowCallOf<T>::Type call) {
  constexpr int V = C.vectors;
  constexpr bool kGuard = !T.full || (V > 4 && V <= 8);
  constexpr Cache kCache = C.evict_last ? Cache::kLast : Cache::kDefault;
  using A = RowAccess<T, kCache, C.early, kGuard>;
  using P = Program<DeviceTarget<T, C, A, true>>;
  constexpr bool kTiled = !reduces_rows<P>();
  constexpr int kLanes = has_groups<P>() ? T.group / T.n : 1,
                kPadded = detail::lanes_of_group(kLanes);
  // Columns of one access of all threads, and of all accesses.
  constexpr int kStep = kPadded == kLanes ? C.threads * T.n : C.threads / kPadded * T.group;
  constexpr int kColumns = V * kStep;
  // A thread's accesses are at the same columns of several heads.
  constexpr int kHeadWidth = T.shape.head_width;
  constexpr bool kSameColumns = kHeadWidth > 0 && kStep % (kHeadWidth ? kHeadWidth : 1) == 0;
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
  int first = part * kColumns + thread * T.n;
  if constexpr (kPadded != kLanes)
    first = part * kColumns + thread / kPadded * T.group + thread % kPadded * T.n;
  // Without this, NVRTC computes a separate address for each access of a cluster's row (256×262144:
  // 95 instructions more, and spills).
  if constexpr (C.cluster > 1) asm("" : "+r"(first));
  Threads threads(slots + local * Threads::kSlots, 1 + local, thread);
  ClusterReduce<C.cluster> blocks(parts, threadIdx.x);
  wait_for_dependencies();
  launch_dependents();
  const int64_t index = static_cast<int64_t>(block) * C.rows + local;
  const bool mine = C.rows == 1 || index < call.rows;
  const RowPlace<T> row(call, mine ? index : call.rows - 1);
  const bool written = mine && !row.skipped();
  const auto at = [&](int i) {
    const int step = i * kStep;
    // Not first + step < width: these sums, one per access, would live until the stores, and spill
    // (silu_and_mul_quant_token 256 threads × 4 vectors, 5 blocks: 16 bytes).
    bool holds = T.full || first < call.width - step;
    if constexpr (kPadded != kLanes) holds = holds && thread % kPadded < kLanes;
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
  // Keeps the loads above before the reductions: ptxas moves nothing over a branch.
  if constexpr (reduces_rows<P>() || (P::kHasColumns && C.early))
    if (detail::is_negative<T, reduces_rows<P>()>(call)) asm volatile("trap;");
  blocks.start();
  typename P::Kept kept[V];
#pragma unroll
  for (int i = 0; i < V; ++i) P::keep(kept[i], loaded[i], at(i));
  typename P::Stats stats;
  const auto wide = [&] {
    const int begin = part * kColumns, end = detail::smaller(call.width, begin + kColumns);
    if constexpr (P::kSquaresOf < 0)
      return 0.0;
    else
      return detail::squares_wide<P::kSquaresOf, T, C>(row, begin, end, threads);
  };
  const int rest = call.width - part * kColumns;
  const detail::BlockColumns share = {detail::smaller(kColumns, rest < 0 ? 0 : rest), kColumns};
  if constexpr (!C.early && P::kColumnsStage == 0) load_columns();
  if constexpr (P::kStages > 0)
    detail::run_stage<P, T, C, 0>(kept, columns, stats, at, threads, blocks, share, call, wide);
  if constexpr (!C.early && P::kColumnsStage == 1) load_columns();
  if constexpr (P::kStages > 1)
    detail::run_stage<P, T, C, 1>(kept, columns, stats, at, threads, blocks, share, call, wide);
  if constexpr (!C.early && P::kColumnsStage == 2) load_columns();
  if constexpr (P::kStages > 2)
    detail::run_stage<P, T, C, 2>(kept, columns, stats, at, threads, blocks, share, call, wide);
  if constexpr (P::kSelects) {
    static_assert(C.cluster == 1, "a row's threads are one block's");
    detail::select_in_registers<P, T, C>(kept, stats, at, threads, row, thread, written);
  }
  // A head is within one block; before an access writes, all accesses of its head must have read.
  if constexpr (T.shape.whole) {
    static_assert(kTiled);
    __syncthreads();
  }
  if (!written) return;
  if constexpr (P::kHasRowResults)
    if (thread == 0 && part == 0) P::store_row(stats, row);
  if constexpr (detail::leaves_stats<P>())
    if (thread == 0 && part == 0) static_cast<typename P::Stats*>(call.folds.stats)[index] = stats;
  if constexpr (!P::kOnlyRowResults) {
    // Late columns are loaded a few accesses at a time: no store passes a load.
    constexpr bool kLate = P::kHasColumns && !C.early && P::kColumnsStage > 2 && !kSameColumns;
    constexpr int kStep = kLate && V > 4 ? 4 : V;
    if constexpr (!C.early && P::kColumnsStage > 2 && kStep == V) load_columns();
#pragma unroll
    for (int begin = 0; begin < V; begin += kStep) {
      if constexpr (kStep < V)
#pragma unroll
        for (int i = begin; i < begin + kStep; ++i)
          if (i < V) P::load_columns(columns[i], at(i));
#pragma unroll
      for (int i = begin; i < begin + kStep; ++i) {
        if (i >= V) break;
        A last = at(i);
        last.writes = last.holds;  // a row to write, as is known here
        P::store(kept[i], columns[i], stats, last);
      }
    }
  }
}

}  // namespace dlblas
