// A row program with results that are folded over rows, everything read once: blocks stay, each
// takes every so many rows, with the row in registers, and so are its columns' sums, until the
// end. The next rows are on their way into shared memory meanwhile, where each thread fills and
// reads places of its own: no barrier. In: RowCall. Out: results of rows, and partial sums [blocks,
// folds, width] that row_fold_parts adds up.
// Numerics: terms are added in f32, at most kMaxFoldedRows a thread, then over the rows of a block,
// in order; no atomics. Read next: device/row/fold.cuh (any layout, in two reads).
#pragma once

#include "device/cp_async.cuh"
#include "device/row/fold.cuh"

namespace dlblas {
namespace detail {

/// Bytes of an access of a row.
inline constexpr int kRingAccess = 16;

/// Rows on their way into shared memory, as a block lays them out: slots, operands, accesses,
/// threads.
template <RowTraits T, RowConfig C>
struct RowRing {
  static constexpr int kSlots = C.ahead + 1;
  static constexpr int kBlock = C.threads * C.rows * kRingAccess;  // bytes of one access
  static constexpr int kOperand = C.vectors * kBlock;
  /// Operands of rows that lie before this one.
  static constexpr int before(int operand) {
    int count = 0;
    for (int i = 0; i < operand; ++i) count += T.streamed >> i & 1u;
    return count;
  }
  static constexpr int kSlot = before(kMaxRowOperands) * kOperand;
};

/// How a program asks for an access of a row: load() starts the copy into shared memory.
template <RowTraits T, RowConfig C, bool kGuard>
struct RequestedAccess : RowAccess<T, Cache::kDefault, false, kGuard> {
  uint32_t place;  // shared memory's, of the first operand

  template <int kIndex>
  __device__ Vec<T.types[kIndex], T.n> load(Operand<kIndex>) const {
    using Words = Vec<T.types[kIndex], T.n>;
    static_assert((T.streamed >> kIndex & 1u) && Words::kBytes == kRingAccess);
    const char* from = this->row.template base<kIndex>() +
                       static_cast<int64_t>(this->first + this->step) * size_of(T.types[kIndex]);
    cp_async(place + RowRing<T, C>::before(kIndex) * RowRing<T, C>::kOperand, from,
             T.full || this->holds ? kRingAccess : 0);
    return Words::zero();
  }
};
/// And how it takes that access once it is there.
template <RowTraits T, RowConfig C, bool kGuard>
struct LandedAccess : RowAccess<T, Cache::kDefault, false, kGuard> {
  uint32_t place;

  template <int kIndex>
  __device__ Vec<T.types[kIndex], T.n> load(Operand<kIndex>) const {
    static_assert(T.streamed >> kIndex & 1u);
    Vec<T.types[kIndex], T.n> v;
    load_shared(v.words, place + RowRing<T, C>::before(kIndex) * RowRing<T, C>::kOperand);
    return v;
  }
};

/// The same bits, which the compiler cannot know: vectors over columns stay packed from row to row.
template <typename Columns>
__device__ inline void hide_columns(Columns& columns, uint32_t zero) {
  static_assert(sizeof(Columns) % 4 == 0);
  auto* words = reinterpret_cast<uint32_t*>(&columns);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Columns) / 4); ++i) words[i] ^= zero;
}

/// The rows of a block add their sums in order; the first one writes the block's.
template <typename P, RowTraits T, RowConfig C, typename V, typename A>
__device__ inline void store_folded_block(const RowCall& call, const A& at,
                                          V (&sums)[C.vectors][P::kFolds], float* others, int local,
                                          int thread) {
  constexpr int N = T.n;
#pragma unroll
  for (int fold = 0; fold < P::kFolds; ++fold) {
#pragma unroll
    for (int i = 0; i < C.vectors; ++i) {
      V& sum = sums[i][fold];
      if constexpr (C.rows > 1) {
        __syncthreads();
        if (local > 0)
#pragma unroll
          for (int j = 0; j < N; ++j) others[((local - 1) * N + j) * C.threads + thread] = sum.v[j];
        __syncthreads();
        if (local > 0) continue;
#pragma unroll 1
        for (int other = 0; other < C.rows - 1; ++other)
#pragma unroll
          for (int j = 0; j < N; ++j) sum.v[j] += others[(other * N + j) * C.threads + thread];
      }
      const int64_t part = static_cast<int64_t>(blockIdx.x) * P::kFolds + fold;
      if (at.holds(i))
        store_vec<DType::kF32, N>(call.folds.partials, part * call.width + at.column(i),
                                  rounded<DType::kF32>(sum));
    }
  }
}

/// Columns of a thread: accesses of all threads, one after the other.
template <RowTraits T, RowConfig C>
struct ThreadColumns {
  int first, width;
  __device__ static constexpr int step(int i) { return i * C.threads * T.n; }
  __device__ int column(int i) const { return first + step(i); }
  __device__ bool holds(int i) const { return T.full || first < width - step(i); }
};

}  // namespace detail

template <template <typename> class Program, RowTraits T, RowConfig C>
__global__ void __launch_bounds__(C.threads* C.rows, C.blocks)
    row_folded(const __grid_constant__ RowCall call) {
  constexpr int V = C.vectors;
  constexpr bool kGuard = !T.full || V > 4;
  using Ring = detail::RowRing<T, C>;
  using Requested = detail::RequestedAccess<T, C, kGuard>;
  using Landed = detail::LandedAccess<T, C, kGuard>;
  using Requests = Program<DeviceTarget<T, C, Requested, true>>;
  using P = Program<DeviceTarget<T, C, Landed, true>>;
  static_assert(!T.nested && !T.strided && T.shape.head_width == 0 && T.shape.indices == 0);
  static_assert(P::kFolds > 0 && !P::kColumnsAfterRow && !P::kHasRowResults && !P::kSelects &&
                P::kStoredByKeep == 0 && P::kSquaresOf < 0 && !has_groups<P>() && C.cluster == 1);
  static_assert(C.rows == 1 || Ring::kSlots * Ring::kSlot >= (C.rows - 1) * T.n * C.threads * 4);
  using Threads = RowReduce<C.threads>;
  extern __shared__ __align__(16) unsigned char row_memory[];
  __shared__ double slots[C.rows * Threads::kSlots + 1];
  __shared__ typename ClusterReduce<1>::Shared parts;
  const int local = C.rows == 1 ? 0 : threadIdx.x / C.threads, thread = threadIdx.x % C.threads;
  const detail::ThreadColumns<T, C> mine = {thread * T.n, call.width};
  Threads threads(slots + local * Threads::kSlots, 1 + local, thread);
  ClusterReduce<1> blocks(parts, threadIdx.x);
  const uint32_t ring = shared_address(row_memory) + threadIdx.x * detail::kRingAccess;
  wait_for_dependencies();
  launch_dependents();

  const int64_t step = static_cast<int64_t>(gridDim.x) * C.rows, last = call.rows - 1;
  // Threads of a row that is not there work on the last one, write nothing and add nothing: rows
  // that share a warp stay together.
  const auto row_at = [&](int64_t base) { return base + local < last ? base + local : last; };
  // Every call closes a group of copies, with or without any.
  const auto request = [&](int64_t base, int slot) {
    if (base <= last) {
      const RowPlace<T> row(call, row_at(base));
#pragma unroll
      for (int i = 0; i < V; ++i) {
        typename Requests::Loaded unused;
        Requests::load(unused, Requested{{row, mine.first, mine.step(i), mine.holds(i), false},
                                         ring + slot * Ring::kSlot + i * Ring::kBlock});
      }
    }
    cp_async_commit();
  };
  int64_t base = static_cast<int64_t>(blockIdx.x) * C.rows;
#pragma unroll
  for (int i = 0; i < C.ahead; ++i) request(base + i * step, i);

  typename P::Columns columns[V] = {};
  if constexpr (P::kHasColumns) {
    const RowPlace<T> row(call, row_at(base));
#pragma unroll
    for (int i = 0; i < V; ++i)
      P::load_columns(columns[i], Landed{{row, mine.first, mine.step(i), mine.holds(i), false}, 0});
  }
  Values<T.n> sums[V][P::kFolds];
#pragma unroll
  for (int i = 0; i < V; ++i)
#pragma unroll
    for (Values<T.n>& sum : sums[i]) sum = Values<T.n>(0.0f);

  const detail::BlockColumns share = {call.width, call.width};
  const auto no_wide = [] { return 0.0; };
#pragma unroll 1
  for (int slot = 0; base <= last; base += step) {
    // The slot of the row before, whose words this thread has used.
    request(base + C.ahead * step, slot == 0 ? C.ahead : slot - 1);
    cp_async_wait<C.ahead>();
    const bool there = C.rows == 1 || base + local <= last;
    const RowPlace<T> row(call, row_at(base));
    const auto at = [&](int i) {
      const bool holds = mine.holds(i);
      return Landed{{row, mine.first, mine.step(i), holds, holds},
                    ring + slot * Ring::kSlot + i * Ring::kBlock};
    };
    // 0, which changes with the row as far as the compiler knows.
    const uint32_t zero = (call.unpack[0].shift - 16) & static_cast<uint32_t>(base);
    typename P::Kept kept[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      typename P::Loaded loaded;
      P::load(loaded, at(i));
      P::keep(kept[i], loaded, at(i));
      if constexpr (P::kHasColumns) detail::hide_columns(columns[i], zero);
    }
    typename P::Stats stats;
    if constexpr (P::kStages > 0)
      detail::run_stage<P, T, C, 0>(kept, columns, stats, at, threads, blocks, share, call,
                                    no_wide);
    if constexpr (P::kStages > 1)
      detail::run_stage<P, T, C, 1>(kept, columns, stats, at, threads, blocks, share, call,
                                    no_wide);
    if constexpr (P::kStages > 2)
      detail::run_stage<P, T, C, 2>(kept, columns, stats, at, threads, blocks, share, call,
                                    no_wide);
    if (there) {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        if constexpr (P::kHasColumns) detail::hide_columns(columns[i], zero);
        P::store(kept[i], columns[i], stats, at(i));
        detail::add_terms<P>(sums[i], kept[i], columns[i], stats, at(i));
      }
    }
    slot = slot == C.ahead ? 0 : slot + 1;
  }
  cp_async_wait<0>();
  detail::store_folded_block<P, T, C>(call, mine, sums, reinterpret_cast<float*>(row_memory), local,
                                      thread);
}

}  // namespace dlblas
