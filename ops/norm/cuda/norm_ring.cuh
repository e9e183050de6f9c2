// RMS norm of long rows as a stream: blocks stay on their multiprocessors, the copy engine brings
// later rows while one row is summed and the row before written, so reads and writes never take
// turns. The blocks of a group share each row. Each warp streams on its own, through a ring of its
// own in shared memory:
//
//      stage k         k + 1 … k + depth            k − lag
//   wait > sum it    in flight                    write its result, then ask for stage k + depth
//
// The only wait between warps is for a row's total, which is several stages old when it is needed:
// one extra warp adds the warps' sums, exchanges them with the group's other blocks through global
// memory, and returns the total through barriers in shared memory. So no thread that writes results
// issues a fence.
// In: x [T, C], weight [C], and residual; rows aligned to 16 bytes. Out: y, and residual_out. A
// row's elements are in shared memory before it is written, so results may lie where x and residual
// do. Flow: call > validate > select > compile > [launch].  Read next:
// ops/norm/cuda/norm_stages.cuh.
#pragma once

#include "device/bulk_copy.cuh"
#include "device/grid.cuh"
#include "device/pdl.cuh"
#include "ops/norm/cuda/norm_stages.cuh"

namespace dlblas::norm {

/// Numbers of a configuration, in stages unless said otherwise.
template <NormCudaTraits S, NormRingConfig C>
struct RingShape {
  static constexpr int kStages = norm_ring_stages(C), kLag = norm_ring_lag(S, C);
  static constexpr int kDepth = C.depth, kSlots = kDepth + kLag;
  static constexpr int kWarps = C.threads / kWarp;
  static constexpr int kStage = C.step * kWarp;  // accesses of a warp
  /// Rows that a warp may have summed before it needs the total of the first of them; and one
  /// more set of sums, for the slowest warp.
  static constexpr int kSets = (kLag + 1) / kStages + 2;
};

/// A block's sums on their way: warps' parts to the warp of sums, the row's total back.
template <NormCudaTraits S, NormRingConfig C>
struct RingSums {
  using Shape = RingShape<S, C>;
  double parts[Shape::kSets][Shape::kWarps];
  double totals[Shape::kSets];
  Mbarrier summed[Shape::kSets], ready[Shape::kSets];
  Mbarrier full[Shape::kWarps * Shape::kDepth];  // of each warp: stages in flight

  /// Every thread; then a barrier. In a loop it would be a tenth of the kernel's code.
  __device__ void init() {
    const int i = threadIdx.x;
    if (i < Shape::kWarps * Shape::kDepth) full[i].init(1);
    if (i < Shape::kSets) summed[i].init(Shape::kWarps), ready[i].init(1);
    fence_mbarrier_init();
  }
};

/// The sum of a row over the blocks of a group: each stores its part, in kCopies, so that many
/// blocks do not all read one place of L2. Values and flags are the same words (0 is "not there",
/// so a sum of zero says −0): no fence, no order.
template <int kBlocks>
struct RingRowSum {
  static constexpr int kCopies = norm_ring_copies(kBlocks), kRow = kCopies * kBlocks;
  int member;

  __device__ static void store(double* to, double part) {
    asm volatile("st.relaxed.gpu.global.f64 [%0], %1;" ::"l"(to), "d"(part) : "memory");
  }
  /// Before any block's publish_part: this block's parts of `rows` rows are not there; the first
  /// row's are at `row`, the next one's `step` further. One statement, as the waits: a loop takes
  /// the compiler 2 ms.
  __device__ void clear(double* row, int rows, int64_t step, int lane) const {
    asm volatile(
        "{\n .reg .pred p;\n .reg .b64 at;\n .reg .s32 left;\n mov.b64 at, %0;\n"
        " mov.s32 left, %1;\n again:\n setp.gt.s32 p, left, 0;\n"
        " @p st.relaxed.gpu.global.b64 [at], 0;\n add.s64 at, at, %2;\n sub.s32 left, left, 1;\n"
        " @p bra again;\n}" ::"l"(row + lane * kBlocks + member),
        "r"(lane < kCopies ? rows : 0), "l"(step * 8)
        : "memory");
  }
  /// From a block's part to the row's total, by a warp; every lane gets it. What is there is not
  /// asked for again: all parts in each turn, two at a time, took 2 % longer (H200, 16×4194304).
  __device__ double total(double* row, double part, int lane) const {
    constexpr int kEach = (kBlocks + kWarp - 1) / kWarp;
    if (lane < kCopies) store(row + lane * kBlocks + member, part == 0 ? -0.0 : part);
    const double* from = row + member % kCopies * kBlocks + lane;
    double values[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) values[i] = lane + i * kWarp < kBlocks ? 0 : -0.0;
    bool there;
    do {
      there = true;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        asm volatile(
            "{\n .reg .pred p;\n .reg .b64 bits;\n mov.b64 bits, %0;\n setp.eq.b64 p, bits, 0;\n"
            " @p ld.relaxed.gpu.global.f64 %0, [%1];\n}"
            : "+d"(values[i])
            : "l"(from + i * kWarp)
            : "memory");
        there &= __double_as_longlong(values[i]) != 0;
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
template <NormCudaTraits S, NormRingConfig C>
struct RingRows {
  int64_t group, groups;  // rows group, group + groups, …
  int count;              // of them
  int width, front;       // accesses of a row, of a front
  int begin, share;       // this block's of a front

  __device__ explicit RingRows(const NormRingParams& params)
      : group(blockIdx.x / C.blocks),
        groups(gridDim.x / C.blocks),
        count(params.rounds - (group >= params.last_round)),
        width(static_cast<int>(static_cast<uint64_t>(params.call.width) / norm_elements(S))) {
    constexpr int kStages = norm_ring_stages(C), kMax = C.threads * C.step;
    front = S.full ? kMax * C.blocks : (width + kStages - 1) / kStages;
    const int most = S.full ? kMax : (front + C.blocks - 1) / C.blocks;
    begin = most * static_cast<int>(blockIdx.x % C.blocks);
    share = min(most, front - begin);
  }
  /// Where the first of the rows has its access `first`, and from one row to the next.
  __device__ char* start(const void* base, int64_t stride, int first) const {
    return static_cast<char*>(at_element<S.type>(base, group * stride)) + int64_t{first} * 16;
  }
  __device__ int64_t step(int64_t stride) const { return groups * stride * size_of(S.type); }
};

/// One warp's view of the stream.
template <NormCudaTraits S, NormRingConfig C>
struct NormRing {
  using Shape = RingShape<S, C>;
  using Vector = NormVec<S>;

  const NormCudaParams& p;
  const RingRows<S, C>& rows;
  uint32_t kept, residuals;  // this lane's places in the first slot, in shared memory
  Mbarrier* full;
  int first, left, lane;  // this lane's access of a front; the warp's and those behind it there

  /// Accesses of the warp's part of a stage.
  __device__ int count(int stage) const {
    if constexpr (S.full) return Shape::kStage;
    return max(0, min(min(left, Shape::kStage), rows.width - stage * rows.front - first + lane));
  }
  __device__ bool holds(int stage, int j) const {
    return S.full || j * kWarp + lane < count(stage);
  }
  /// Bytes from a row's pointer to a stage of it.
  __device__ int64_t bytes(int stage) const { return int64_t{stage * rows.front} * 16; }
  /// This lane's access `j` of a slot of the ring, and of a place among the residuals.
  __device__ uint32_t slot(int slot, int j = 0) const {
    return kept + (slot * Shape::kStage + j * kWarp) * 16;
  }
  __device__ uint32_t residual(int place, int j = 0) const {
    return residuals + (place * Shape::kStage + j * kWarp) * 16;
  }

  /// Squares of a stage that has landed; with `add`, h takes x's place and is written.
  __device__ void sum(Squares& squares, char* to, int stage, int at, int place) const {
#pragma unroll
    for (int j = 0; j < C.step; ++j) {
      if (!holds(stage, j)) continue;
      Vector h;
      load_shared(h.words, slot(at, j));
      if constexpr (S.add) {
        Vector other;
        load_shared(other.words, residual(place, j));
        h = add_residual<S>(h, other);
        store_shared(slot(at, j), h.words);
        store_row<S, Cache::kStream>(to + bytes(stage) + j * kWarp * 16, 0, h);
      }
      squares.take(h);
    }
  }

  using Weights = NormWeightVec<S>[C.step];
  /// Of the stage that is written next: from L2, which the rows leave first. Held in registers over
  /// all rows they cost more than they save (H200, 16×4194304: 79 µs for 76).
  __device__ void load_weights(Weights& weights, int stage) const {
    constexpr int N = norm_elements(S);
#pragma unroll
    for (int j = 0; j < C.step; ++j)
      if (holds(stage, j))
        weights[j] = load_weight<S, Cache::kEarly>(
            p.weight, (int64_t{stage * rows.front} + first + j * kWarp) * N);
  }

  /// The result of a stage whose row has its total.
  __device__ void write(char* to, int stage, int at, const Weights& weights,
                        RowScale<S.type> scale) const {
#pragma unroll
    for (int j = 0; j < C.step; ++j) {
      if (!holds(stage, j)) continue;
      Vector h;
      load_shared(h.words, slot(at, j));
      store_row<S, Cache::kStream>(to + bytes(stage) + j * kWarp * 16, 0,
                                   normalize<S>(h, weights[j], scale, p.weight_offset));
    }
  }

  /// Squares of the warp's part of a row again, in f64; its last stage is in slot `at`. One loop:
  /// loops take the compiler longest.
  __device__ double sum_wide(int at) const {
    constexpr int N = Vector::kWords;
    double sum = 0;
#pragma unroll 1
    for (int i = 0; i < C.vectors * N; ++i) {
      const int stage = i / (C.step * N), j = i / N % C.step;
      const int place = at - (Shape::kStages - 1 - stage);
      if (holds(stage, j))
        add_squares_wide<S.type>(
            load_shared_word(slot(place < 0 ? place + Shape::kSlots : place, j) + i % N * 4), sum);
    }
    return sum;
  }
};

/// A stage of a row; those before row 0 count down from it.
template <int kStages>
struct RingStage {
  int row, stage;

  __device__ static RingStage before(int turns) {
    const int rows = (turns + kStages - 1) / kStages;
    return {-rows, rows * kStages - turns};
  }
  __device__ void advance() {
    if (++stage == kStages) stage = 0, ++row;
  }
};

/// What one lane of a warp asks the copy engine for: stage after stage, row after row.
template <NormCudaTraits S, NormRingConfig C>
struct RingRequests {
  using Shape = RingShape<S, C>;
  const char *x, *residual;
  int64_t x_step, residual_step;
  int rows, stage = 0;

  __device__ explicit RingRequests(const NormRing<S, C>& ring)
      : x(ring.rows.start(ring.p.x, ring.p.x_stride, ring.first)),
        residual(ring.rows.start(ring.p.residual, ring.p.residual_stride, ring.first)),
        x_step(ring.rows.step(ring.p.x_stride)),
        residual_step(ring.rows.step(ring.p.residual_stride)),
        rows(ring.rows.count) {}

  /// The next stage, to slot `to` and barrier `place`.
  __device__ void ask(const NormRing<S, C>& ring, int to, int place) {
    if (rows == 0) return;
    const uint32_t bytes = ring.count(stage) * 16;
    Mbarrier& full = ring.full[place];
    full.arrive_expect_tx(bytes * (S.add ? 2 : 1));
    if (bytes > 0) {
      bulk_load_once(ring.slot(to), x + ring.bytes(stage), bytes, full);
      if constexpr (S.add)
        bulk_load_once(ring.residual(place), residual + ring.bytes(stage), bytes, full);
    }
    if (++stage < Shape::kStages) return;
    stage = 0, --rows;
    x += x_step, residual += residual_step;
  }
};

/// The warp of sums: rows in order, until the last one's total is handed back.
template <NormCudaTraits S, NormRingConfig C>
__device__ inline void add_up(const NormRingParams& params, const RingRows<S, C>& rows,
                              RingSums<S, C>& sums) {
  using Shape = RingShape<S, C>;
  const int lane = threadIdx.x % kWarp;
  using GroupSum = RingRowSum<C.blocks>;
  const GroupSum row_sum = {static_cast<int>(blockIdx.x % C.blocks)};
  double* row = params.parts + rows.group * GroupSum::kRow;
  const int64_t step = rows.groups * GroupSum::kRow;
  row_sum.clear(row, rows.count, step, lane);
  grid_sync(lane);
  RingPlace<Shape::kSets> place;
#pragma unroll 1
  for (int i = 0; i < rows.count; ++i, place.advance(), row += step) {
    sums.summed[place.stage].wait(place.parity);
    double sum = warp_sum(lane < Shape::kWarps ? sums.parts[place.stage][lane] : 0.0);
    sum = row_sum.total(row, sum, lane);
    __syncwarp();
    if (lane > 0) continue;
    sums.totals[place.stage] = sum;
    sums.ready[place.stage].arrive();
  }
}

/// A warp's part of a row is complete; its last stage is in slot `at`.
template <NormCudaTraits S, NormRingConfig C>
__device__ inline void publish_part(const NormRing<S, C>& ring, const Squares& squares, int at,
                                    int set, RingSums<S, C>& sums) {
  const float sum = squares.sum();
  // Each lane judges its own part, which leaves f32 where the row does; with eps = 0 it also does
  // where the lane has zeros alone. A vote, so that the compiler knows the lanes to go one way:
  // shuffles after a loop that some lanes alone may have run need code for lanes that went apart,
  // which was a fifth of the kernel.
  const bool wide = __any_sync(0xffffffffu, leaves_f32(sum, ring.p));
  const double part = warp_sum(wide ? ring.sum_wide(at) : sum);
  if (ring.lane > 0) return;
  sums.parts[set][threadIdx.x / kWarp] = part;
  sums.summed[set].arrive();
}

/// All other warps: the stream.
template <NormCudaTraits S, NormRingConfig C>
__device__ inline void stream_rows(const NormRing<S, C>& ring, RingSums<S, C>& sums) {
  using Shape = RingShape<S, C>;
  constexpr int kStages = Shape::kStages, kLag = Shape::kLag, kDepth = Shape::kDepth;
  const NormCudaParams& p = ring.p;
  RingRequests<S, C> requests(ring);
  // The weight first: it would wait behind the rows (H200, 16×4194304: 75.4 → 74.7 µs).
  typename NormRing<S, C>::Weights weights;
  ring.load_weights(weights, 0);

  // Each turn asks for a stage, sums the one that was asked for kDepth turns ago, and writes the
  // one that was summed kLag turns ago; stages before the first row's and behind the last's are
  // skipped. The slot of the stage to write is the slot of the stage to ask for.
  RingStage<kStages> sum = RingStage<kStages>::before(kDepth);
  RingStage<kStages> write = RingStage<kStages>::before(kDepth + kLag);
  RingPlace<Shape::kSlots> summed = {kLag, 0}, written;
  RingPlace<kDepth> place = {0, 1};
  RingPlace<Shape::kSets> published, ready;
  char* h = ring.rows.start(p.residual_out, p.residual_out_stride, ring.first);
  char* y = ring.rows.start(p.y, p.y_stride, ring.first);
  const uint32_t rows = ring.rows.count;
  RowScale<S.type> scale = {1, 0};
  Squares squares;
#pragma unroll 1
  while (write.row < ring.rows.count) {
    if (static_cast<uint32_t>(sum.row) < rows) {
      ring.full[place.stage].wait(place.parity);
      ring.sum(squares, h, sum.stage, summed.stage, place.stage);
      if (sum.stage == kStages - 1) {
        publish_part(ring, squares, summed.stage, published.stage, sums);
        squares = {};
        published.advance();
        h += ring.rows.step(p.residual_out_stride);
      }
    }
    if (write.row >= 0) {
      if (write.stage == 0) {
        sums.ready[ready.stage].wait(ready.parity);
        scale = row_scale<S.type>(sums.totals[ready.stage], p);
        ready.advance();
      }
      ring.write(y, write.stage, written.stage, weights, scale);
      if (write.stage == kStages - 1) y += ring.rows.step(p.y_stride);
      ring.load_weights(weights, (write.stage + 1) % kStages);
    }
    sum.advance(), write.advance();
    if constexpr (S.add) fence_async_shared();  // h lies where a copy will
    __syncwarp();
    if (ring.lane == 0) requests.ask(ring, written.stage, place.stage);
    summed.advance(), written.advance(), place.advance();
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
  const RingRows<S, C> rows(params);
  sums.init();
  __syncthreads();
  wait_for_dependencies();
  launch_dependents();
  // Known to be the same for a warp: its shuffles need no code for the case that lanes went apart.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / kWarp), 0);
  const int lane = threadIdx.x % kWarp;
  if (warp == Shape::kWarps) {
    add_up<S, C>(params, rows, sums);
    return;
  }
  // Each warp's slots, then each warp's residuals.
  const uint32_t mine = shared_address(dynamic_shared) + lane * 16;
  const uint32_t kept = mine + warp * (Shape::kSlots * Shape::kStage * 16);
  const uint32_t residuals =
      mine + (Shape::kWarps * Shape::kSlots + warp * Shape::kDepth) * (Shape::kStage * 16);
  const int place = warp * Shape::kStage;
  const NormRing<S, C> ring = {p,
                               rows,
                               kept,
                               residuals,
                               sums.full + warp * Shape::kDepth,
                               rows.begin + place + lane,
                               rows.share - place,
                               lane};
  stream_rows<S, C>(ring, sums);
}

}  // namespace dlblas::norm
