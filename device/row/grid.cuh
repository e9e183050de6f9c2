// A row program with a row in the registers of the whole device: reads rows once that do not fit a
// cluster. Blocks are persistent and take all rows together, one after the other: while they
// synchronise on one row, the next one is loaded, and the previous one, which waits in shared
// memory, is stored. A block has the same columns of all rows, and keeps vectors over them in
// shared memory, too, if they fit (RowTraits::kept). One warp of each block synchronises with the
// other blocks, since a thread that waits for others must not wait for its own stores. For programs
// that synchronise once: one stage, or two where blocks finalise the first by themselves
// (kBlocksApart). In: RowCall, a cooperative launch. Flow: call > validate > select > compile >
// [launch]. Read next: registers.cuh, device/grid.cuh.
#pragma once

#include "device/grid.cuh"
#include "device/row/registers.cuh"

namespace dlblas {

/// A block's part of a row, as other blocks read it: a part as 8 bytes, or RowMoments.
struct RowGridPart {
  double first, second;
};

/// Bytes of shared memory per access of the waiting row.
constexpr int32_t grid_waiting(const RowTraits& traits) {
  const int32_t bytes = traits.n * size_of(traits.types[0]);
  return bytes < 4 ? 4 : bytes;
}

namespace detail {

/// Arrives at a barrier without waiting there; see barrier_sync.
__device__ inline void barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// All blocks' parts of a row, handled by one warp. Memory holds the parts of two rows: a block may
/// be one row ahead.
class GridMeeting {
 public:
  __device__ GridMeeting(void* parts, int lane)
      : parts_(static_cast<RowGridPart*>(parts)), lane_(lane) {}

  __device__ void put(uint32_t turn, const RowGridPart& mine) const {
    if (lane_ == 0) parts_[(turn & 1) * gridDim.x + blockIdx.x] = mine;
    grid_sync(lane_);
  }
  template <typename Op>
  __device__ RowGridPart all(uint32_t turn) const {
    double total = Op::widen(Op::none());
    each(turn, [&](int, const RowGridPart& part) { total = Op::combine(total, part.first); });
    return {Op::widen(reduce_lanes<Op, kWarp>(Op::narrow(total))), 0};
  }
  /// Relative to the first block's mean, in f64. `share`: the most columns of a block.
  __device__ RowGridPart moments(uint32_t turn, int share, int width) const {
    const double centre = read(turn, 0).first;
    double sum = 0, squares = 0;
    each(turn, [&](int block, const RowGridPart& part) {
      const int64_t left = width - int64_t{block} * share;
      const double n = left < 0 ? 0 : left < share ? left : share, apart = part.first - centre;
      if (n > 0) sum += n * apart, squares += part.second + n * apart * apart;
    });
    sum = warp_sum(sum), squares = warp_sum(squares);
    const double mean = sum / width;
    return {centre + mean, squares - sum * mean};
  }

 private:
  /// Bypasses L1, which may still hold an earlier row's part.
  __device__ RowGridPart read(uint32_t turn, int block) const {
    const auto* from = reinterpret_cast<const double2*>(parts_ + (turn & 1) * gridDim.x + block);
    const double2 v = __ldcg(from);
    return {v.x, v.y};
  }
  template <typename Body>
  __device__ void each(uint32_t turn, const Body& body) const {
#pragma unroll 4
    for (int block = lane_; block < static_cast<int>(gridDim.x); block += kWarp)
      body(block, read(turn, block));
  }

  RowGridPart* parts_;
  int lane_;
};

}  // namespace detail

template <template <typename> class Program, RowTraits T, RowConfig C>
__global__ void __launch_bounds__(C.threads + kWarp, C.blocks)
    row_grid(const __grid_constant__ typename RowCallOf<T>::Type call) {
  constexpr bool kKeeps = T.kept > 0;
  constexpr int V = C.vectors, kColumns = V * C.threads * T.n, kStep = kKeeps || V % 2 != 0 ? 1 : 2;
  using A = RowAccess<T, Cache::kDefault, false, true>;
  using P = Program<DeviceTarget<T, C, A, true>>;
  constexpr int kLast = P::kStages - 1;
  static_assert(V % kStep == 0);
  static_assert(!kKeeps || sizeof(typename P::Columns) <= T.kept);
  static_assert(C.rows == 1 && C.cluster == 1 && !T.full && T.shape.head_width == 0);
  static_assert(P::kStages == 1 || (P::kStages == 2 && P::kBlocksApart));
  static_assert(P::kSquaresOf < 0 && !has_groups<P>() && !P::kSelects && P::kStoredByKeep == 0);
  static_assert(!P::kHasRowResults && P::kFolds == 0 && P::kColumnsStage > 2);
  using Threads = RowReduce<C.threads>;
  using Op = typename decltype(P::partial(Stage<kLast>{}))::Op;
  // Barriers, for even and for odd rows: at kTold the threads have published their part of a row,
  // at kMet the extra warp has synchronised with the other blocks. Threads publish row r + 2 only
  // after they have read row r's result, so no barrier or word serves two rows at once. The first
  // warp's arrival at kTold would suffice; all arrive, so that no barrier is predicated.
  constexpr int kTold = 2, kMet = 4, kAll = C.threads + kWarp;
  __shared__ double slots[Threads::kSlots + 1];
  __shared__ RowGridPart told[2], met[2];
  extern __shared__ __align__(16) unsigned char row_memory[];
  auto* const all_columns = reinterpret_cast<typename P::Columns*>(row_memory);
  static_assert(sizeof(typename P::Kept) <= grid_waiting(T));
  auto* const waiting = reinterpret_cast<typename P::Kept*>(
      row_memory + (kKeeps ? int64_t{V} * C.threads * sizeof(typename P::Columns) : 0));
  const int thread = threadIdx.x;
  int first = blockIdx.x * kColumns + thread * T.n;
  asm("" : "+r"(first));  // as in row_registers
  if (thread >= C.threads) {
    const detail::GridMeeting meeting(call.folds.partials, thread % kWarp);
#pragma unroll 1
    for (uint32_t turn = 0; turn < static_cast<uint32_t>(call.rows); ++turn) {
      const int parity = turn & 1;
      barrier_sync(kTold + parity, kAll);
      meeting.put(turn, told[parity]);
      RowGridPart total;
      if constexpr (P::kBlocksApart)
        total = meeting.moments(turn, kColumns, call.width);
      else
        total = meeting.template all<Op>(turn);
      if (thread == C.threads) met[parity] = total;
      detail::barrier_arrive(kMet + parity, kAll);
    }
    return;
  }
  Threads threads(slots, 1, thread);
  const int rest = call.width - static_cast<int>(blockIdx.x) * kColumns;
  const int own = rest < 0 ? 0 : detail::smaller(kColumns, rest);
  const auto at = [&](const RowPlace<T>& row, int i) {
    const int step = i * C.threads * T.n;
    const bool holds = first + step < call.width;
    return A{row, first, step, holds, holds};
  };
  typename P::Loaded loaded[V];
  {
    const RowPlace<T> row(call, 0);
#pragma unroll
    for (int i = 0; i < V; ++i) P::load(loaded[i], at(row, i));
    if constexpr (kKeeps) {
#pragma unroll 1
      for (int i = 0; i < V; ++i) {
        const int step = i * C.threads * T.n;
        const bool holds = first + step < call.width;
        P::load_columns(all_columns[i * C.threads + thread], A{row, first, step, holds, holds});
      }
    }
  }
  typename P::Stats stats;  // of the row that waits
  const auto store_waiting = [&](int64_t r) {
    const RowPlace<T> row(call, r);
    const int parity = r & 1;
    barrier_sync(kMet + parity, kAll);
    const RowGridPart total = met[parity];
    if constexpr (P::kBlocksApart)
      P::finalize(Stage<kLast>{}, stats, RowMoments{total.first, total.second}, call);
    else
      P::finalize(Stage<kLast>{}, stats, Op::narrow(total.first), call);
    typename P::Columns columns[kStep];
#pragma unroll
    for (int begin = 0; begin < V; begin += kStep) {
#pragma unroll
      for (int i = begin; i < begin + kStep; ++i)
        if constexpr (kKeeps)
          columns[i - begin] = all_columns[i * C.threads + thread];
        else if constexpr (P::kHasColumns)
          P::load_columns(columns[i - begin], at(row, i));
#pragma unroll
      for (int i = begin; i < begin + kStep; ++i)
        P::store(waiting[i * C.threads + thread], columns[i - begin], stats, at(row, i));
    }
  };
#pragma unroll 1
  for (int64_t r = 0; r < call.rows; ++r) {
    const RowPlace<T> row(call, r);
    typename P::Kept kept[V];
#pragma unroll
    for (int i = 0; i < V; ++i) P::keep(kept[i], loaded[i], at(row, i));
    typename P::Stats own_stats;
    const typename P::Columns none{};
    const auto partial = [&](auto stage) {
      auto part = P::partial(stage);
#pragma unroll
      for (int i = 0; i < V; ++i)
        if (P::kZeroNeutral || at(row, i).holds)
          P::accumulate(stage, part, kept[i], none, own_stats, at(row, i));
      return threads.template all<typename decltype(part)::Op>(part.value());
    };
    if constexpr (P::kBlocksApart)
      P::finalize_block(Stage<0>{}, own_stats, partial(Stage<0>{}), own, call);
    const auto mine = partial(Stage<kLast>{});
    if (r + 1 < call.rows) {
      const RowPlace<T> next(call, r + 1);
#pragma unroll
      for (int i = 0; i < V; ++i) P::load(loaded[i], at(next, i));
    }
    if (thread == 0) {
      if constexpr (P::kBlocksApart) {
        const RowMoments m = P::moments(own_stats, mine, own, call);
        told[r & 1] = {m.mean, m.squares};
      } else {
        told[r & 1] = {Op::widen(mine), 0};
      }
    }
    detail::barrier_arrive(kTold + (r & 1), kAll);
    if (r > 0) store_waiting(r - 1);
    stats = own_stats;
#pragma unroll
    for (int i = 0; i < V; ++i) waiting[i * C.threads + thread] = kept[i];
  }
  store_waiting(call.rows - 1);
}

}  // namespace dlblas
