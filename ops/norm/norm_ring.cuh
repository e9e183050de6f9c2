// RMS norm of long rows as a stream: blocks stay on their multiprocessors, the copy engine brings
// later rows while one row is summed and the row before written, so reads and writes never take
// turns. The blocks of a group share each row, always in the same columns, so the weight stays in
// registers. Each warp streams on its own, through a ring of its own in shared memory:
//
//      stage k         k + 1 … k + depth            k − lag
//   wait > sum it    in flight                    write its result, then ask for stage k + depth
//
// Nobody waits for others but for a row's total, which is some stages old when it is needed: one
// more warp adds up what the others hold, meets the group's other blocks in memory, and hands the
// total back through barriers in shared memory. So no thread that writes results ever fences.
// In: x [T, C], weight [C], and residual; rows aligned to 16 bytes. Out: y, and residual_out. A
// row's elements are in shared memory before it is written, so results may lie where x and residual
// do. Flow: call > validate > select > compile > [launch].  Read next: ops/norm/norm_stages.cuh.
#pragma once

#include "device/bulk_copy.cuh"
#include "device/grid.cuh"
#include "device/pdl.cuh"
#include "ops/norm/norm_stages.cuh"

namespace dlblas {

/// Numbers of a configuration, in stages unless said otherwise.
template <NormCudaTraits S, NormRingConfig C>
struct RingShape {
  static constexpr int kStages = norm_ring_stages(C), kLag = norm_ring_lag(S, C);
  static constexpr int kDepth = C.depth, kSlots = kDepth + kLag;
  static constexpr int kWarps = C.threads / kWarp;
  static constexpr int kStage = C.step * kWarp;  // accesses of a warp
  static constexpr bool kHeld = norm_ring_holds_weight(S, C);
  /// Rows that a warp may have summed before it needs the total of the first of them; and one
  /// more set of sums, for whoever is behind.
  static constexpr int kSets = (kLag + 1) / kStages + 2;
};

/// A block's sums on their way: warps' parts to the warp of sums, the row's total back.
template <NormCudaTraits S, NormRingConfig C>
struct RingSums {
  using Shape = RingShape<S, C>;
  double parts[Shape::kSets][Shape::kWarps];
  double totals[Shape::kSets];
  uint32_t zeros[Shape::kSets];  // NormCudaParams::zero again, unknown anew for every row
  Mbarrier summed[Shape::kSets], ready[Shape::kSets];
  Mbarrier full[Shape::kWarps][Shape::kDepth];  // stages in flight

  __device__ void init() {
    for (Mbarrier& barrier : summed) barrier.init(Shape::kWarps);
    for (Mbarrier& barrier : ready) barrier.init(1);
    for (auto& stages : full)
      for (Mbarrier& barrier : stages) barrier.init(1);
    fence_mbarrier_init();
  }
};

/// Where the blocks of a group meet over a row: a part for each, in kCopies, so that many blocks do
/// not all ask one place of L2. Values and flags are the same words (0 is "not there", so a sum of
/// zero says −0): no fence, no order.
template <int kBlocks>
struct RingMeeting {
  static constexpr int kCopies = norm_ring_copies(kBlocks);
  double* parts;  // [rows, kCopies, kBlocks]
  int member;

  __device__ double* row(int64_t row) const { return parts + row * kCopies * kBlocks; }
  __device__ static void store(double* to, double part) {
    asm volatile("st.relaxed.gpu.global.f64 [%0], %1;" ::"l"(to), "d"(part) : "memory");
  }
  /// Before anybody's hand_in: this block's parts of a row are not there.
  __device__ void clear(int64_t at, int lane) const {
    if (lane < kCopies) store(row(at) + lane * kBlocks + member, 0);
  }
  /// From a block's part to the row's total, by a warp; every lane gets it.
  __device__ double meet(int64_t at, double part, int lane) const {
    constexpr int kEach = (kBlocks + kWarp - 1) / kWarp;
    double* from = row(at);
    if (lane < kCopies) store(from + lane * kBlocks + member, part == 0 ? -0.0 : part);
    from += member % kCopies * kBlocks + lane;
    double values[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) values[i] = lane + i * kWarp < kBlocks ? 0 : -0.0;
    bool there;
    do {
      there = true;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (__double_as_longlong(values[i]) == 0)
          asm volatile("ld.relaxed.gpu.global.f64 %0, [%1];"
                       : "=d"(values[i])
                       : "l"(from + i * kWarp)
                       : "memory");
        there = there && __double_as_longlong(values[i]) != 0;
      }
    } while (!__all_sync(0xffffffffu, there));
    double sum = values[0];
#pragma unroll
    for (int i = 1; i < kEach; ++i) sum += values[i];
    return warp_sum(sum);
  }
};

/// The group's rows, and this block's columns of them: a row is kStages fronts, a front is divided
/// evenly among the blocks, so that all blocks together read one piece of memory after the other.
struct RingRows {
  int64_t group, groups;  // rows group, group + groups, …
  int count;              // of them
  int64_t front;          // accesses
  int begin, share;       // this block's accesses of a front

  __device__ RingRows(const NormCudaParams& p, int64_t accesses, int stages, int blocks)
      : group(blockIdx.x / blocks),
        groups(gridDim.x / blocks),
        count(static_cast<int>((p.rows - group + groups - 1) / groups)),
        front((accesses + stages - 1) / stages) {
    const int most = static_cast<int>((front + blocks - 1) / blocks);
    begin = most * static_cast<int>(blockIdx.x % blocks);
    share = static_cast<int>(min(int64_t{most}, front - begin));
  }
  __device__ int64_t row(int i) const { return group + i * groups; }
};

/// One warp's view of the stream; `first`: this lane's first access within a front.
template <NormCudaTraits S, NormRingConfig C>
struct NormRing {
  using Shape = RingShape<S, C>;
  static constexpr int N = norm_elements(S);

  const NormCudaParams& p;
  const RingRows& rows;
  NormVec<S>*kept, *residuals;  // this lane's places in the first slot
  Mbarrier* full;
  int64_t first;
  int left, lane;  // accesses of the warp and those behind it, in this block's share of a front

  /// Accesses of the warp's part of a stage.
  __device__ int count(int stage) const {
    if constexpr (S.full) return Shape::kStage;
    const int64_t row = p.width / N - stage * rows.front - (first - lane);
    return static_cast<int>(max(int64_t{0}, min(int64_t{min(left, Shape::kStage)}, row)));
  }
  __device__ bool holds(int stage, int j) const {
    return S.full || j * kWarp + lane < count(stage);
  }
  /// Column of this lane's first access to a stage.
  __device__ int64_t column(int stage) const { return (first + stage * rows.front) * N; }
  __device__ NormVec<S>* slot(int slot) const { return kept + slot * Shape::kStage; }

  /// One lane asks for a stage of a row.
  __device__ void ask(int row, int stage, int to, int place) const {
    const uint32_t bytes = count(stage) * 16;
    full[place].arrive_expect_tx(bytes * (S.add ? 2 : 1));
    if (bytes == 0) return;
    const int64_t r = rows.row(row), c = column(stage);
    bulk_load_once(slot(to), at_element<S.type>(p.x, r * p.x_stride + c), bytes, full[place]);
    if constexpr (S.add)
      bulk_load_once(residuals + place * Shape::kStage,
                     at_element<S.type>(p.residual, r * p.residual_stride + c), bytes, full[place]);
  }

  /// Squares of a stage that has landed; with `add`, h takes x's place and is written.
  __device__ void sum(Squares& squares, int row, int stage, int at, int place) const {
    const int64_t to = rows.row(row) * p.residual_out_stride + column(stage);
#pragma unroll
    for (int j = 0; j < C.step; ++j) {
      if (!holds(stage, j)) continue;
      NormVec<S>& x = slot(at)[j * kWarp];
      NormVec<S> h = x;
      if constexpr (S.add) {
        x = h = add_residual<S>(h, residuals[place * Shape::kStage + j * kWarp]);
        store_row<S, Cache::kStream>(p.residual_out, to + j * kWarp * N, h);
      }
      squares.take(h);
    }
  }

  using Weights = NormWeightVec<S>[Shape::kHeld ? C.vectors : C.step];
  /// Of `count` stages, from `stage` on.
  __device__ void load_weights(Weights& weights, int stage, int count) const {
#pragma unroll
    for (int k = 0; k < count; ++k)
#pragma unroll
      for (int j = 0; j < C.step; ++j)
        weights[k * C.step + j] =
            holds(stage + k, j)
                ? load_weight<S, Cache::kEarly>(p.weight, column(stage + k) + j * kWarp * N)
                : NormWeightVec<S>::zero();
  }

  /// The result of a stage whose row has its total; its weights start at `weight`.
  __device__ void write(int row, int stage, int at, const NormWeightVec<S>* weight, RowScale scale,
                        uint32_t zero) const {
    const int64_t to = rows.row(row) * p.y_stride + column(stage);
#pragma unroll
    for (int j = 0; j < C.step; ++j)
      if (holds(stage, j))
        store_row<S, Cache::kStream>(
            p.y, to + j * kWarp * N,
            normalize<S>(slot(at)[j * kWarp], hide(weight[j], zero), scale, p.weight_offset));
  }
  /// Squares of a row again, in f64; its last stage is in slot `at`.
  __device__ double sum_wide(int at) const {
    double sum = 0;
#pragma unroll 1
    for (int stage = Shape::kStages - 1; stage >= 0; --stage) {
      for (int j = 0; j < C.step; ++j)
        if (holds(stage, j)) sum += squares_wide<S>(slot(at) + j * kWarp, 0, N);
      at = (at > 0 ? at : Shape::kSlots) - 1;
    }
    return sum;
  }
};

/// The warp of sums: rows in order, until the last one's total is handed back.
template <NormCudaTraits S, NormRingConfig C>
__device__ inline void add_up(const NormRingParams& params, const RingRows& rows,
                              RingSums<S, C>& sums) {
  using Shape = RingShape<S, C>;
  const int lane = threadIdx.x % kWarp;
  const RingMeeting<C.blocks> meeting = {params.parts, static_cast<int>(blockIdx.x % C.blocks)};
  for (int i = 0; i < rows.count; ++i) meeting.clear(rows.row(i), lane);
  __syncwarp();
  if (lane == 0) grid_sync();
  __syncwarp();
  RingPlace<Shape::kSets> place;
  for (int i = 0; i < rows.count; ++i, place.advance()) {
    sums.summed[place.stage].wait(place.parity);
    double sum = warp_sum(lane < Shape::kWarps ? sums.parts[place.stage][lane] : 0.0);
    sum = meeting.meet(rows.row(i), sum, lane);
    __syncwarp();
    if (lane > 0) continue;
    sums.totals[place.stage] = sum;
    sums.zeros[place.stage] = params.call.zero;
    sums.ready[place.stage].arrive();
  }
}

/// A warp's part of a row is complete; its last stage is in slot `at`.
template <NormCudaTraits S, NormRingConfig C>
__device__ inline void hand_in(const NormRing<S, C>& ring, const Squares& squares, int at, int set,
                               RingSums<S, C>& sums) {
  const SquareSum sum = sum_squares(
      squares.sum(), ring.p, [](float v) { return warp_sum(v); },
      [&] { return ring.sum_wide(at); });
  if (ring.lane > 0) return;
  sums.parts[set][threadIdx.x / kWarp] = sum.exact();
  sums.summed[set].arrive();
}

/// All other warps: the stream.
template <NormCudaTraits S, NormRingConfig C>
__device__ inline void stream_rows(const NormRing<S, C>& ring, RingSums<S, C>& sums) {
  using Shape = RingShape<S, C>;
  constexpr int kStages = Shape::kStages, kLag = Shape::kLag;
  constexpr int kBehind = (kLag + kStages - 1) / kStages;  // rows, rounded up
  const int count = ring.rows.count;
  int asked_row = 0, asked_stage = 0;
  RingPlace<Shape::kSlots> asked, summed, written;
  RingPlace<Shape::kDepth> place;
  const auto ask = [&](int to) {
    if (ring.lane == 0 && asked_row < count) ring.ask(asked_row, asked_stage, asked.stage, to);
    asked.advance();
    if (++asked_stage == kStages) asked_stage = 0, ++asked_row;
  };
  // The weight first: it would wait behind the rows (H200, 16×4194304: 75.4 → 74.7 µs).
  typename NormRing<S, C>::Weights weights;
  if constexpr (Shape::kHeld) ring.load_weights(weights, 0, kStages);
#pragma unroll 1
  for (int i = 0; i < Shape::kDepth; ++i) ask(i);

  RingPlace<Shape::kSets> handed, ready;
  RowScale scale = {1, 0};
  uint32_t zero = 0;
#pragma unroll 1
  for (int row = 0; row < count + kBehind; ++row) {
    Squares squares;
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      // What was summed kLag stages ago.
      const int old_stage = (stage + kBehind * kStages - kLag) % kStages;
      const int old_row = row - (kLag - stage + kStages - 1) / kStages;
      if constexpr (!Shape::kHeld) ring.load_weights(weights, old_stage, 1);
      if (row < count) {
        ring.full[place.stage].wait(place.parity);
        ring.sum(squares, row, stage, summed.stage, place.stage);
        if (stage == kStages - 1) {
          hand_in(ring, squares, summed.stage, handed.stage, sums);
          handed.advance();
        }
        summed.advance();
      }
      if (old_row >= 0 && old_row < count) {
        if (old_stage == 0) {
          sums.ready[ready.stage].wait(ready.parity);
          scale = row_scale(sums.totals[ready.stage], ring.p), zero = sums.zeros[ready.stage];
          ready.advance();
        }
        ring.write(old_row, old_stage, written.stage,
                   weights + (Shape::kHeld ? old_stage * C.step : 0), scale, zero);
        written.advance();
      }
      if constexpr (S.add) fence_async_shared();  // h lies where a copy will
      __syncwarp();
      ask(place.stage);
      place.advance();
    }
  }
}

template <NormCudaTraits S, NormRingConfig C>
__global__ void __launch_bounds__(C.threads + kWarp, 1)
    norm_ring(const __grid_constant__ NormRingParams params) {
  static_assert(valid(S, C, 90));
  using Shape = RingShape<S, C>;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  __shared__ RingSums<S, C> sums;
  const NormCudaParams& p = params.call;
  const RingRows rows(p, p.width / norm_elements(S), Shape::kStages, C.blocks);
  if (threadIdx.x == 0) sums.init();
  __syncthreads();
  wait_for_dependencies();
  launch_dependents();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (warp == Shape::kWarps) {
    add_up<S, C>(params, rows, sums);
    return;
  }
  auto* kept = reinterpret_cast<NormVec<S>*>(dynamic_shared) + warp * Shape::kSlots * Shape::kStage;
  auto* residuals = reinterpret_cast<NormVec<S>*>(dynamic_shared) +
                    (Shape::kWarps * Shape::kSlots + warp * Shape::kDepth) * Shape::kStage;
  const NormRing<S, C> ring = {p,
                               rows,
                               kept + lane,
                               residuals + lane,
                               sums.full[warp],
                               rows.begin + warp * Shape::kStage + lane,
                               rows.share - warp * Shape::kStage,
                               lane};
  stream_rows<S, C>(ring, sums);
}

}  // namespace dlblas
