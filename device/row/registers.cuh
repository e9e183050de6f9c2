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

/// A program whose results are folded over groups, or its form for row_registers if it has one.
template <typename P>
struct GroupedForm {
  using Type = P;
};
template <typename P>
requires requires { typename P::GroupedForm; }
struct GroupedForm<P> {
  using Type = typename P::GroupedForm;
};

/// True if a row's Stats are kept for the kernel that folds it.
template <typename P, RowTraits T>
constexpr bool leaves_stats() {
  return P::kFolds > 0 && P::kStages > 0 && T.fold_lanes == 0;
}

__device__ inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/// Rows r < call.rows with r % period == phase.
__device__ inline int64_t rows_of_phase(const RowCall& call, uint32_t phase) {
  const int64_t period = call.folds.period;
  return (call.rows - phase + period - 1) / period;
}

/// Adds up each of kCount values over lanes whose numbers differ in the bits below 2 · kDistance.
/// Lanes share the work: a step exchanges half of what a lane has left. Calls store(i, sum) for
/// `index` ≤ i < `end`, once for each. kSame: bits of lanes that have the same sum.
template <int kDistance, int kSame, int kCount, typename Store>
__device__ inline void reduce_shared(const float (&v)[kCount], uint32_t lanes, int lane, int index,
                                     int end, const Store& store) {
  if constexpr (kDistance == 0) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if ((lane & kSame) == 0 && index + i < end) store(index + i, v[i]);
  } else if constexpr (kCount == 1) {
    const float sum[1] = {v[0] + __shfl_xor_sync(lanes, v[0], kDistance)};
    reduce_shared<kDistance / 2, kSame | kDistance>(sum, lanes, lane, index, end, store);
  } else {
    constexpr int kHalf = (kCount + 1) / 2;
    const bool upper = (lane & kDistance) != 0;
    float half[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float high = i + kHalf < kCount ? v[i + kHalf] : 0;
      const float kept = upper ? high : v[i], given = upper ? v[i] : high;
      half[i] = kept + __shfl_xor_sync(lanes, given, kDistance);
    }
    const int middle = smaller(end, index + kHalf);
    reduce_shared<kDistance / 2, kSame>(half, lanes, lane, upper ? index + kHalf : index,
                                        upper ? end : middle, store);
  }
}

/// An access's term of result kFold, which is folded over groups of columns.
template <typename P, int kFold, typename A>
__device__ inline float group_term(const typename P::Kept& kept, const typename P::Columns& columns,
                                   const typename P::Stats& stats, const A& at) {
  float sum = 0;
  if constexpr (requires { P::group_term(Fold<kFold>{}, kept, at); }) {
    sum = P::group_term(Fold<kFold>{}, kept, at);
  } else {
    const auto terms = P::fold(Fold<kFold>{}, kept, columns, stats, at);
#pragma unroll
    for (int i = 0; i < A::N; ++i) sum += terms.v[i];
  }
  return at.holds ? sum : 0;
}

/// A thread's terms of such results, added up over the lanes that share slots of the row
/// (RowTraits::fold_lanes). `limit`: the first slot that is not this block's.
template <typename P, RowTraits T, RowConfig C, typename A>
__device__ inline void store_group_terms(const typename P::Kept (&kept)[C.vectors],
                                         const typename P::Columns (&columns)[C.vectors],
                                         const typename P::Stats& stats, const A& at, int limit) {
  if constexpr (T.fold_lanes > 0) {
    constexpr int kLanes = T.fold_lanes, kCount = C.vectors * P::kFolds;
    static_assert(C.threads % kLanes == 0 && P::kFolds == 2);
    float terms[kCount];
#pragma unroll
    for (int i = 0; i < C.vectors; ++i) {
      terms[2 * i] = group_term<P, 0>(kept[i], columns[i], stats, at(i));
      terms[2 * i + 1] = group_term<P, 1>(kept[i], columns[i], stats, at(i));
    }
    const auto first = at(0);
    const int lane = static_cast<int>(threadIdx.x) % kWarp, begin = lane / kLanes * kLanes;
    // Lanes of other rows may have left.
    const uint32_t lanes = (kLanes == kWarp ? 0xffffffffu : (1u << kLanes % kWarp) - 1) << begin;
    const int slot = first.column() / (kLanes * T.n);
    const RowFolds& folds = first.call.folds;
    float* const to = folds.partials + first.row.index * P::kFolds * folds.slots;
    reduce_shared<kLanes / 2, 0>(terms, lanes, lane, 0, kCount, [&](int i, float sum) {
      const int mine = slot + i / 2 * (C.threads / kLanes);
      if (mine < limit) to[i % 2 * folds.slots + mine] = sum;
    });
  }
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

/// Lanes that a group of columns takes: a power of 2; the last ones may have no columns. A group of
/// more accesses than a warp has lanes takes several accesses of each.
constexpr int lanes_of_group(int accesses) {
  int padded = 1;
  while (padded < accesses && padded < kWarp) padded *= 2;
  return padded;
}
constexpr int rounds_of_group(int accesses) { return (accesses + kWarp - 1) / kWarp; }

/// Stage R over groups of columns: aligned lanes of a warp. One result per access.
template <typename P, RowTraits T, RowConfig C, int R, typename A>
__device__ inline void reduce_groups(typename P::Kept (&kept)[C.vectors],
                                     const typename P::Columns (&columns)[C.vectors],
                                     typename P::Stats& stats, const A& at) {
  using Part = decltype(P::partial(Stage<R>{}));
  using Op = typename Part::Op;
  constexpr int kLanes = lanes_of_group(T.group / T.n), kRounds = rounds_of_group(T.group / T.n);
  constexpr int kGroups = C.vectors / kRounds;  // of a thread
  static_assert(T.group % T.n == 0 && T.group >= T.n && C.threads % kLanes == 0);
  static_assert(C.vectors % kRounds == 0);
  typename Op::V v[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    Part part = P::partial(Stage<R>{});
#pragma unroll
    for (int i = g * kRounds; i < (g + 1) * kRounds; ++i)
      if (kRounds == 1 || P::kZeroNeutral || at(i).holds)
        P::accumulate(Stage<R>{}, part, kept[i], columns[i], stats, at(i));
    v[g] = part.value();
  }
#pragma unroll
  for (int d = kLanes / 2; d > 0; d /= 2)
#pragma unroll
    for (int g = 0; g < kGroups; ++g) Op::combine_lane(v[g], d);
#pragma unroll
  for (int i = 0; i < C.vectors; ++i) P::finalize_group(Stage<R>{}, kept[i], v[i / kRounds], at(i));
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
  using P = typename detail::GroupedForm<Program<DeviceTarget<T, C, A, true>>>::Type;
  constexpr bool kTiled = !reduces_rows<P>();
  constexpr int kLanes = has_groups<P>() ? T.group / T.n : 1,
                kPadded = detail::lanes_of_group(kLanes), kRounds = detail::rounds_of_group(kLanes);
  // Columns of one access of all threads (of kRounds, which are whole groups), and of all accesses.
  constexpr int kStep = kPadded == kLanes ? C.threads * T.n : C.threads / kPadded * T.group;
  constexpr int kColumns = V / kRounds * kStep;
  // A thread's accesses are at the same columns of several heads.
  constexpr int kHeadWidth = T.shape.head_width;
  constexpr bool kSameColumns = kHeadWidth > 0 && kStep % (kHeadWidth ? kHeadWidth : 1) == 0;
  static_assert(P::kHasHeads == (kHeadWidth > 0) && (kRounds == 1 || !P::kHasHeads));
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
    const int step = i / kRounds * kStep + i % kRounds * kPadded * T.n;
    // Not first + step < width: these sums, one per access, would live until the stores, and spill
    // (silu_and_mul_quant_token 256 threads × 4 vectors, 5 blocks: 16 bytes).
    bool holds = T.full || first < call.width - step;
    if constexpr (kPadded != kLanes)
      holds = holds && thread % kPadded < kLanes - i % kRounds * kPadded;
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
  if constexpr (detail::leaves_stats<P, T>())
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
    detail::store_group_terms<P, T, C>(kept, columns, stats, at, call.folds.slots);
  }
}

}  // namespace dlblas
