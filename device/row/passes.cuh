// A row program with one row per block (or a cluster), of any length, in passes: one per stage, and
// one that stores. Kept data stays in shared memory or is read again. Also the form for any strides
// and for elements that are not aligned to their size: one element per access, read again. There,
// one warp takes a group of columns. In: RowCall. Flow: call > validate > select > compile >
// [launch]. Read next: registers.cuh.
#pragma once

#include "device/row/registers.cuh"

namespace dlblas {

namespace detail {

/// The last stage over groups of any width, and what follows it: one warp per group, one element
/// per access, read again for the store.
template <typename P, RowTraits T, RowConfig C, typename A>
__device__ inline void store_groups(typename P::Stats& stats, const RowPlace<T>& row) {
  using S = Stage<P::kStages - 1>;
  using Part = decltype(P::partial(S{}));
  static_assert(T.n == 1 && T.group > 0 && C.threads % kWarp == 0 && C.cluster == 1);
  const int lane = threadIdx.x % kWarp, width = row.call.width;
  typename P::Kept kept;
  typename P::Columns columns;
  // keep() has already stored, in the pass of a stage over rows.
  constexpr bool kStored = P::kStoredByKeep != 0 && reduces_rows<P>();
  const auto load = [&](const A& at) {
    if constexpr (kStored) {
      P::reload(kept, at);
    } else {
      typename P::Loaded loaded;
      P::load(loaded, at);
      P::keep(kept, loaded, at);
    }
    if constexpr (P::kHasColumns) P::load_columns(columns, at);
  };
#pragma unroll 1
  for (int64_t begin = int64_t{threadIdx.x / kWarp} * T.group; begin < width;
       begin += int64_t{C.threads / kWarp} * T.group) {
    const int first = static_cast<int>(begin);
    const int end = first + smaller(width - first, T.group);
    Part part = P::partial(S{});
    if constexpr (T.shape.whole) {  // a head's words stay in the warp's registers
      constexpr int kHeld = (T.group + kWarp - 1) / kWarp;
      typename P::Kept held[kHeld];
      const auto at = [&](int i) {
        const int c = first + lane + i * kWarp;
        return A{row, c, 0, c < end, c < end && !row.skipped()};
      };
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        load(at(i));
        held[i] = kept;
        if (P::kZeroNeutral || at(i).holds)
          P::accumulate(S{}, part, held[i], columns, stats, at(i));
      }
      const auto total = reduce_lanes<typename Part::Op, kWarp>(part.value());
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        P::finalize_group(S{}, held[i], total, at(i));
        if constexpr (P::kHasColumns) P::load_columns(columns, at(i));
        P::store(held[i], columns, stats, at(i));
      }
    } else {
#pragma unroll 1
      for (int c = first + lane; c < end; c += kWarp) {
        const A at = {row, c, 0, true, true};
        load(at);
        P::accumulate(S{}, part, kept, columns, stats, at);
      }
      const auto total = reduce_lanes<typename Part::Op, kWarp>(part.value());
#pragma unroll 1
      for (int c = first + lane; c < end; c += kWarp) {
        const A at = {row, c, 0, true, !row.skipped()};
        load(at);
        P::finalize_group(S{}, kept, total, at);
        P::store(kept, columns, stats, at);
      }
    }
  }
}

/// The first stage over rows that runs; -1 if none does.
template <typename P, RowTraits T, int R = 0>
constexpr int first_row_stage() {
  if constexpr (R >= P::kStages)
    return -1;
  else if constexpr (P::kScopes[R] <= 0 && (!P::kOptionalStages || P::needs(Stage<R>{}, T.options)))
    return R;
  else
    return first_row_stage<P, T, R + 1>();
}

}  // namespace detail

template <template <typename> class Program, RowTraits T, RowConfig C>
__global__ void __launch_bounds__(C.threads, C.blocks)
    row_passes(const __grid_constant__ typename RowCallOf<T>::Type call) {
  static_assert(C.rows == 1 && !T.full);
  constexpr int V = C.vectors, N = T.n, kHeld = V * C.threads * N;
  // Whole heads, where they are read before they are written.
  constexpr int kHead = T.shape.whole ? T.shape.head_width : 1, kColumns = kHeld / kHead * kHead;
  // Default caching: rows that are read again hit L2 if they are still there.
  using A = RowAccess<T, Cache::kDefault, false, true>;
  using P = Program<DeviceTarget<T, C, A, false>>;
  static_assert(!T.shape.whole || !reduces_rows<P>());
  using Threads = RowReduce<C.threads>;
  using Kept = typename P::Kept;
  static_assert(!C.keep || sizeof(Kept) <= T.kept, "the host gives it shared memory");
  extern __shared__ __align__(16) unsigned char row_memory[];
  __shared__ double slots[Threads::kSlots + 1];
  __shared__ typename ClusterReduce<C.cluster>::Shared parts;
  const int thread = threadIdx.x, rank = C.cluster == 1 ? 0 : static_cast<int>(cluster_rank());
  Threads threads(slots, 1, thread);
  ClusterReduce<C.cluster> blocks(parts, thread);
  wait_for_dependencies();
  launch_dependents();
  blocks.start();
  const int accesses = (call.width + N - 1) / N;
  // Each block of a cluster gets whole groups, or whole slots.
  static_assert(!has_groups<P>() || T.strided || T.group / N <= kWarp);
  constexpr int kWhole = has_groups<P>() ? T.group / N : T.fold_lanes > 0 ? T.fold_lanes : 1;
  const int share = (accesses + C.cluster * kWhole - 1) / (C.cluster * kWhole) * kWhole * N;
  const int begin = detail::smaller(call.width, share * rank);
  const int end = detail::smaller(call.width - begin, share);
  const RowPlace<T> row(call, blockIdx.x / C.cluster);
  typename P::Columns columns[V];
  typename P::Stats stats;
  constexpr int kFirstStage = detail::first_row_stage<P, T>();
  // One pass: Kept comes from the row, or from where the first pass left it.
  const auto pass = [&](auto first, auto body) {
    constexpr bool kFirst = decltype(first)::index == 0;
#pragma unroll 1
    for (int start = 0; start < end; start += kColumns) {
      Kept kept[V];
      const auto at = [&](int i) {
        const int step = i * C.threads * N;
        const bool inside = kColumns == kHeld || thread * N + step < kColumns;
        const bool holds = inside && start + thread * N + step < end;
        return A{row, begin + start + thread * N, step, holds, holds && !row.skipped()};
      };
      Kept* place = reinterpret_cast<Kept*>(row_memory) + start / N + thread;
      if constexpr (kFirst || !C.keep) {
        if constexpr (!kFirst && P::kStoredByKeep != 0) {
#pragma unroll
          for (int i = 0; i < V; ++i) P::reload(kept[i], at(i));
        } else {
          typename P::Loaded loaded[V];
#pragma unroll
          for (int i = 0; i < V; ++i) P::load(loaded[i], at(i));
#pragma unroll
          for (int i = 0; i < V; ++i) {
            P::keep(kept[i], loaded[i], at(i));
            if (C.keep && at(i).holds) place[i * C.threads] = kept[i];
          }
        }
      } else {
#pragma unroll
        for (int i = 0; i < V; ++i)
          if (at(i).holds) kept[i] = place[i * C.threads];
      }
      body(kept, at);
    }
  };
  const auto load_columns = [&](const auto& at) {
    if constexpr (P::kHasColumns)
#pragma unroll
      for (int i = 0; i < V; ++i) P::load_columns(columns[i], at(i));
  };
  const auto wide = [&] {
    if constexpr (P::kSquaresOf < 0 || T.strided)
      return 0.0;
    else
      return detail::squares_wide<P::kSquaresOf, T, C>(row, begin, begin + end, threads);
  };
  const auto stage = [&](auto s) {
    constexpr int R = decltype(s)::index;
    constexpr bool kNeeded = !P::kOptionalStages || P::needs(Stage<R>{}, T.options);
    if constexpr (!kNeeded) return;
    if constexpr (P::kScopes[R] <= 0) {
      // Element by element, a sum is f64 from the start if the program may need it.
      constexpr bool kWide = (P::kSquaresOf >= 0) && T.strided;
      const auto none = [&] {
        if constexpr (kWide)
          return WideSumPart();
        else
          return P::partial(s);
      };
      auto part = none();
      using Op = typename decltype(part)::Op;
      using Long = LongSum<Op>;
      // Limits f32 chains to a few hundred terms. An access of one element adds to one chain of
      // four; wider ones to all, which is enough unless the sum's range is close to f32's.
      constexpr bool kFlushed = Long::kExists && ((P::kSquaresOf >= 0) || T.n == 1);
      [[maybe_unused]] Long flushed;
      [[maybe_unused]] int rounds = 0;
      pass(Stage<(R != kFirstStage)>{}, [&](auto& kept, const auto& at) {
        if constexpr (P::kColumnsStage <= R) load_columns(at);  // of this step of the pass
#pragma unroll
        for (int i = 0; i < V; ++i)
          if (P::kZeroNeutral || at(i).holds)
            P::accumulate(s, part, kept[i], columns[i], stats, at(i));
        if constexpr (kFlushed)
          if (++rounds % 64 == 0) flushed.add(part.value()), part = none();
      });
      auto mine = part.value();
      if constexpr (kFlushed) flushed.add(mine), mine = flushed.value();
      detail::finalize_stage<P, C, R, Op>(mine, stats, threads, blocks, {end > 0 ? end : 0, share},
                                          call, wide);
    }
  };
  if constexpr (P::kStages > 0) stage(Stage<0>{});
  if constexpr (P::kStages > 1) stage(Stage<1>{});
  if constexpr (P::kStages > 2) stage(Stage<2>{});
  if constexpr (P::kSelects) {
    static_assert(C.cluster == 1, "a row's threads are one block's");
    // Without a row-wide stage, shared memory is still unused here.
    if constexpr (C.keep && kFirstStage < 0) pass(Stage<0>{}, [](auto&, const auto&) {});
    const auto next = [&](uint64_t below) {
      uint64_t best = RowRank::kNone;
      pass(Stage<1>{}, [&](auto& kept, const auto& at) {
#pragma unroll
        for (int i = 0; i < V; ++i) {
          uint64_t ranks[N];
          rank_columns<RowRank>(ranks, P::ranked(kept[i]), at(i).column(), at(i).holds);
          best = first_below(ranks, below, best);
        }
      });
      return threads.template all<RankOp<RowRank>>(best);
    };
    RowPicks<RowRank, decltype(next)> picks{next, thread, C.threads, true};
    P::select(picks, stats, row);
  }
  if constexpr (P::kHasRowResults)
    if (thread == 0 && rank == 0 && !row.skipped()) P::store_row(stats, row);
  if constexpr (detail::leaves_stats<P, T>())
    if (thread == 0 && rank == 0)
      static_cast<typename P::Stats*>(call.folds.stats)[row.index] = stats;
  if constexpr (T.strided && has_groups<P>()) {
    detail::store_groups<P, T, C, A>(stats, row);
  } else if constexpr (!P::kOnlyRowResults) {
    // Without an earlier row-wide stage this is the first pass.
    pass(Stage<(kFirstStage >= 0)>{}, [&](auto& kept, const auto& at) {
      load_columns(at);
      constexpr int kLast = P::kStages - 1;
      if constexpr (kLast >= 0)
        if constexpr (P::kScopes[kLast] > 0)
          detail::reduce_groups<P, T, C, kLast>(kept, columns, stats, at);
      if constexpr (T.shape.whole) __syncthreads();
#pragma unroll
      for (int i = 0; i < V; ++i) P::store(kept[i], columns[i], stats, at(i));
      constexpr int kSlot = N * (T.fold_lanes > 0 ? T.fold_lanes : 1);
      detail::store_group_terms<P, T, C>(kept, columns, stats, at,
                                         (begin + end + kSlot - 1) / kSlot);
    });
  }
}

}  // namespace dlblas
