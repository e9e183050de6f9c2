// A row program with results that are folded over rows, which reads everything once: blocks are
// persistent, each takes rows at a fixed stride, and keeps the row and, until the end, its columns'
// sums in registers. Meanwhile the next rows are copied into shared memory, where each thread fills
// and reads only its own places: no barrier. In: RowCall. Out: results of rows, and partial sums
// [blocks, folds, width] that row_fold_parts adds up.
// Numerics: terms are added in f32, at most kMaxFoldedRows per thread, then over the rows of a
// block, in order; no atomics. Read next: device/row/fold.cuh (any layout, in two reads).
#pragma once

#include "device/cp_async.cuh"
#include "device/row/fold.cuh"

namespace dlblas {
namespace detail {

/// Bytes of one access to a row.
inline constexpr int kRingAccess = 16;

/// Rows in flight to shared memory, in a block's layout: slots, operands, accesses, threads.
template <RowTraits T, RowConfig C>
struct RowRing {
  static constexpr int kSlots = C.ahead + 1;
  static constexpr int kBlock = C.threads * C.rows * kRingAccess;  // bytes of one access
  static constexpr int kOperand = C.vectors * kBlock;
  /// Row operands that are stored before this one.
  static constexpr int before(int operand) {
    int count = 0;
    for (int i = 0; i < operand; ++i) count += T.streamed >> i & 1u;
    return count;
  }
  static constexpr int kSlot = before(kMaxRowOperands) * kOperand;
};

/// An access whose options are constants before the compiler optimises: in this kernel NVRTC 13.2
/// reads T's object at run time, once per branch.
template <RowTraits T, bool kGuard>
struct FoldedAccess : RowAccess<T, Cache::kDefault, false, kGuard> {
  __device__ int32_t option(int i) const {
    constexpr int32_t kOptions[] = {T.options[0], T.options[1], T.options[2], T.options[3]};
    static_assert(kMaxRowOptions == 4);
    return i == 0 ? kOptions[0] : i == 1 ? kOptions[1] : i == 2 ? kOptions[2] : kOptions[3];
  }
};

/// How a program requests an access of a row: load() starts the copy into shared memory.
template <RowTraits T, RowConfig C, bool kGuard>
struct RequestedAccess : FoldedAccess<T, kGuard> {
  uint32_t place;  // shared memory's, of the first operand

  template <int kIndex>
  __device__ Vec<T.types[kIndex], T.n> load(Operand<kIndex>) const {
    using Words = Vec<T.types[kIndex], T.n>;
    if constexpr (!(T.streamed >> kIndex & 1u)) return Words::zero();  // the call has none
    static_assert(!(T.streamed >> kIndex & 1u) || Words::kBytes == kRingAccess);
    const char* from = this->row.template base<kIndex>() +
                       static_cast<int64_t>(this->first + this->step) * size_of(T.types[kIndex]);
    cp_async(place + RowRing<T, C>::before(kIndex) * RowRing<T, C>::kOperand, from,
             T.full || this->holds ? kRingAccess : 0);
    return Words::zero();
  }
};
/// How it reads that access once it has arrived.
template <RowTraits T, RowConfig C, bool kGuard>
struct LandedAccess : FoldedAccess<T, kGuard> {
  uint32_t place;

  template <int kIndex>
  __device__ Vec<T.types[kIndex], T.n> load(Operand<kIndex>) const {
    if constexpr (!(T.streamed >> kIndex & 1u)) {
      return Vec<T.types[kIndex], T.n>::zero();
    } else {
      Vec<T.types[kIndex], T.n> v;
      load_shared(v.words, place + RowRing<T, C>::before(kIndex) * RowRing<T, C>::kOperand);
      return v;
    }
  }
};

/// Σa, Σa², Σb and Σb·c, each in two chains.
struct FourSums {
  float sum, squares, other, products;
  __device__ Sums first() const { return {sum, squares}; }
};
struct FourSumsPart {
  FourSums chains[2] = {};
  template <int N>
  __device__ void add(const Values<N>& a, const Values<N>& b, const Values<N>& c) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      FourSums& chain = chains[i % 2];
      chain.sum += a.v[i];
      chain.squares = fmaf(a.v[i], a.v[i], chain.squares);
      chain.other += b.v[i];
      chain.products = fmaf(b.v[i], c.v[i], chain.products);
    }
  }
  /// Σa² and Σb·c alone.
  template <int N>
  __device__ void add_products(const Values<N>& a, const Values<N>& b, const Values<N>& c) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      FourSums& chain = chains[i % 2];
      chain.squares = fmaf(a.v[i], a.v[i], chain.squares);
      chain.products = fmaf(b.v[i], c.v[i], chain.products);
    }
  }
  __device__ FourSums value() const {
    return {chains[0].sum + chains[1].sum, chains[0].squares + chains[1].squares,
            chains[0].other + chains[1].other, chains[0].products + chains[1].products};
  }
};

/// Four sums over a row's threads, in each of them. The lanes of a warp share the work: after two
/// steps each holds one of the four, so it takes 13 shuffles instead of 32. Callers need another
/// barrier between two calls: there is one set of slots.
template <int kThreads>
class FourReduce {
 public:
  static constexpr int kWarps = kThreads > kWarp ? kThreads / kWarp : 1;
  static constexpr int kSlots = kWarps > 1 ? 4 * kWarps : 0;
  static_assert((kWarps & (kWarps - 1)) == 0);

  __device__ FourReduce(float* slots, int barrier, int thread)
      : slots_(slots), barrier_(barrier), thread_(thread) {}

  __device__ FourSums all(FourSums v) const {
    if constexpr (kThreads < kWarp) {
#pragma unroll
      for (int d = kThreads / 2; d > 0; d /= 2) {
        add_other_lane(v.sum, d), add_other_lane(v.squares, d);
        add_other_lane(v.other, d), add_other_lane(v.products, d);
      }
      return v;
    } else {
      const int lane = static_cast<int>(threadIdx.x) % kWarp;
      const float first = halved(v.sum, v.other, lane, 16);
      const float second = halved(v.squares, v.products, lane, 16);
      float mine = halved(first, second, lane, 8);
      mine = warp_sum<8>(mine);
      // Lanes 0 to 7 hold sum, the next groups of eight squares, other, products.
      if constexpr (kWarps > 1) {
        if (lane % 8 == 0) slots_[thread_ / kWarp * 4 + lane / 8] = mine;
        barrier_sync(barrier_, kThreads);
        constexpr int kLanes = kWarps < 8 ? kWarps : 8;
        mine = 0;
        if (kLanes == 8 || lane % 8 < kLanes) {
#pragma unroll
          for (int warp = 0; warp < kWarps; warp += kLanes)
            mine += slots_[(warp + lane % 8) * 4 + lane / 8];
        }
        mine = warp_sum<8>(mine);
      }
      constexpr uint32_t kAll = 0xffffffffu;
      return {__shfl_sync(kAll, mine, 0), __shfl_sync(kAll, mine, 8), __shfl_sync(kAll, mine, 16),
              __shfl_sync(kAll, mine, 24)};
    }
  }

 private:
  /// Adds `low` of this lane and its partner if the lane's `distance` bit is 0, else `high`.
  __device__ static float halved(float low, float high, int lane, int distance) {
    const bool upper = (lane & distance) != 0;
    const float other = __shfl_xor_sync(0xffffffffu, upper ? low : high, distance);
    return (upper ? high : low) + other;
  }

  float* slots_;
  int barrier_, thread_;
};

/// What a program's form for this kernel may use besides DeviceTarget's names.
template <RowTraits T, RowConfig C, typename A>
struct FoldedTarget : DeviceTarget<T, C, A, true> {
  using FourSums = FourSumsPart;
};
/// A program, or its form for this kernel if it has one.
template <typename P>
struct FoldedForm {
  using Type = P;
};
template <typename P>
requires requires { typename P::FoldedForm; }
struct FoldedForm<P> {
  using Type = typename P::FoldedForm;
};

/// Stage R, which may be four sums, and is skipped if all rows of a warp agree on that.
template <typename P, RowTraits T, RowConfig C, int R, typename A, typename Threads, typename Four>
__device__ inline void run_folded_stage(typename P::Kept (&kept)[C.vectors],
                                        const typename P::Columns (&columns)[C.vectors],
                                        typename P::Stats& stats, const A& at, Threads& threads,
                                        const Four& four, const RowCall& call) {
  ClusterReduce<1>::Shared none;
  ClusterReduce<1> blocks(none, 0);
  const BlockColumns share = {call.width, call.width};
  const auto no_wide = [] { return 0.0; };
  if constexpr (requires { P::skips(Stage<R>{}, stats); }) {
    const bool skips = P::skips(Stage<R>{}, stats);
    if (C.threads < kWarp ? __all_sync(0xffffffffu, skips) : skips) return;
    const typename P::Stats before = stats;
    run_stage<P, T, C, R>(kept, columns, stats, at, threads, blocks, share, call, no_wide);
    if (skips) stats = before;
  } else if constexpr (requires { P::partial(Stage<R>{}).chains[0].other; }) {
    auto part = P::partial(Stage<R>{});
#pragma unroll
    for (int i = 0; i < C.vectors; ++i)
      if (T.full || P::kZeroNeutral || at(i).holds)
        P::accumulate(Stage<R>{}, part, kept[i], columns[i], stats, at(i));
    P::finalize(Stage<R>{}, stats, four.all(part.value()), call);
  } else {
    run_stage<P, T, C, R>(kept, columns, stats, at, threads, blocks, share, call, no_wide);
  }
}

/// The same bits, unknown to the compiler: vectors over columns stay packed from row to row.
template <typename Columns>
__device__ inline void hide_columns(Columns& columns, uint32_t zero) {
  static_assert(sizeof(Columns) % 4 == 0);
  auto* words = reinterpret_cast<uint32_t*>(&columns);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Columns) / 4); ++i) words[i] ^= zero;
}

/// The rows of a block add their sums in order; the first one writes the block's sums.
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

/// A thread's columns: in each access, those of all threads are contiguous.
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
    row_folded(const __grid_constant__ typename RowCallOf<T>::Type call) {
  constexpr int V = C.vectors;
  constexpr bool kGuard = !T.full || V > 4;
  using Ring = detail::RowRing<T, C>;
  using Requested = detail::RequestedAccess<T, C, kGuard>;
  using Landed = detail::LandedAccess<T, C, kGuard>;
  using Requests = Program<detail::FoldedTarget<T, C, Requested>>;
  using P = typename detail::FoldedForm<Program<detail::FoldedTarget<T, C, Landed>>>::Type;
  static_assert(!T.strided && T.shape.head_width == 0 && T.shape.indices == 0);
  static_assert(P::kFolds > 0 && !P::kColumnsAfterRow && !P::kHasRowResults && !P::kSelects &&
                P::kStoredByKeep == 0 && P::kSquaresOf < 0 && !has_groups<P>() && C.cluster == 1);
  static_assert(C.rows == 1 || Ring::kSlots * Ring::kSlot >= (C.rows - 1) * T.n * C.threads * 4);
  using Threads = RowReduce<C.threads>;
  using Four = detail::FourReduce<C.threads>;
  extern __shared__ __align__(16) unsigned char row_memory[];
  __shared__ double slots[C.rows * Threads::kSlots + 1];
  __shared__ float four_slots[C.rows * Four::kSlots + 1];
  const int local = C.rows == 1 ? 0 : threadIdx.x / C.threads, thread = threadIdx.x % C.threads;
  const detail::ThreadColumns<T, C> mine = {thread * T.n, call.width};
  Threads threads(slots + local * Threads::kSlots, 1 + local, thread);
  const Four four(four_slots + local * Four::kSlots, 1 + local, thread);
  const uint32_t ring = shared_address(row_memory) + threadIdx.x * detail::kRingAccess;
  wait_for_dependencies();
  launch_dependents();

  // Rows of one phase, counted from 0.
  const uint32_t period = static_cast<uint32_t>(call.folds.period);
  const uint32_t phase = blockIdx.x % period;
  const int64_t step = static_cast<int64_t>(gridDim.x / period) * C.rows;
  const int64_t last = detail::rows_of_phase(call, phase) - 1;
  // Threads without a row work on the last one, but write and add nothing: rows that share a warp
  // stay together.
  const auto row_at = [&](int64_t base) {
    return (base + local < last ? base + local : last) * period + phase;
  };
  // Every call closes a group of copies, even an empty one.
  const auto request = [&](int64_t base, int slot) {
    if (base <= last) {
      const RowPlace<T> row(call, row_at(base));
#pragma unroll
      for (int i = 0; i < V; ++i) {
        typename Requests::Loaded unused;
        Requests::load(unused, Requested{{{row, mine.first, mine.step(i), mine.holds(i), false}},
                                         ring + slot * Ring::kSlot + i * Ring::kBlock});
      }
    }
    cp_async_commit();
  };
  int64_t base = static_cast<int64_t>(blockIdx.x / period) * C.rows;
#pragma unroll
  for (int i = 0; i < C.ahead; ++i) request(base + i * step, i);

  typename P::Columns columns[V] = {};
  if constexpr (P::kHasColumns) {
    const RowPlace<T> row(call, phase);  // any row of this phase, even one that is not there
#pragma unroll
    for (int i = 0; i < V; ++i)
      P::load_columns(columns[i],
                      Landed{{{row, mine.first, mine.step(i), mine.holds(i), false}}, 0});
  }
  Values<T.n> sums[V][P::kFolds];
#pragma unroll
  for (int i = 0; i < V; ++i)
#pragma unroll
    for (Values<T.n>& sum : sums[i]) sum = Values<T.n>(0.0f);

#pragma unroll 1
  for (int slot = 0; base <= last; base += step) {
    // The slot of the previous row, whose words this thread has used.
    request(base + C.ahead * step, slot == 0 ? C.ahead : slot - 1);
    cp_async_wait<C.ahead>();
    const bool there = C.rows == 1 || base + local <= last;
    const RowPlace<T> row(call, row_at(base));
    const auto at = [&](int i) {
      const bool holds = mine.holds(i);
      return Landed{{{row, mine.first, mine.step(i), holds, holds}},
                    ring + slot * Ring::kSlot + i * Ring::kBlock};
    };
    // 0, but as far as the compiler knows it changes with the row.
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
      detail::run_folded_stage<P, T, C, 0>(kept, columns, stats, at, threads, four, call);
    if constexpr (P::kStages > 1)
      detail::run_folded_stage<P, T, C, 1>(kept, columns, stats, at, threads, four, call);
    if constexpr (P::kStages > 2)
      detail::run_folded_stage<P, T, C, 2>(kept, columns, stats, at, threads, four, call);
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
