// RMS norm of long rows as a stream: blocks are persistent, and the copy engine loads later rows
// while one row is summed and an earlier one written, so reads and writes always overlap. The
// blocks of a group share each row. Each warp streams independently, through its own ring buffer in
// shared memory:
//
//      stage k         k + 1 … k + depth            k − lag
//   wait > sum it    in flight                    write its result, then ask for stage k + depth
//
// Warps wait on each other only for a row's total, which is several stages old by the time it is
// needed: one extra warp adds the warps' sums, exchanges them with the group's other blocks through
// global memory, and returns the total through barriers in shared memory. So no thread that writes
// results issues a fence.
// In: x [T, C], weight [C], and residual; rows aligned to 16 bytes. Out: y, and residual_out. A row
// is in shared memory before any of it is written, so results may alias x and residual. Flow: call
// > validate > select > compile > [launch]. Read next: ops/norm/cuda/norm_stages.cuh.
#pragma once

#include "device/bulk_copy.cuh"
#include "device/grid.cuh"
#include "device/pdl.cuh"
#include "ops/norm/cuda/norm_stages.cuh"

namespace dlblas::norm {

/// Sizes that follow from a configuration, in stages unless stated otherwise.
template <NormCudaTraits S, NormRingConfig C>
struct RingShape {
  static constexpr int kStages = norm_ring_stages(C), kLag = norm_ring_lag(S, C);
  static constexpr int kDepth = C.depth, kSlots = kDepth + kLag;
  static constexpr int kWarps = C.threads / kWarp;
  static constexpr int kStage = C.step * kWarp;  // accesses of a warp
  /// Rows that a warp may have summed before it needs the total of the first of them, plus one more
  /// set of sums for the slowest warp.
  static constexpr int kSets = (kLag + 1) / kStages + 2;
};

/// A block's sums in flight: the warps' parts to the summing warp, and the row's total back.
template <NormCudaTraits S, NormRingConfig C>
struct RingSums {
  using Shape = RingShape<S, C>;
  double parts[Shape::kSets][Shape::kWarps];
  double totals[Shape::kSets];
  Mbarrier summed[Shape::kSets], ready[Shape::kSets];
  Mbarrier full[Shape::kWarps * Shape::kDepth];  // of each warp: stages in flight

  /// Called by every thread, and followed by a barrier. A loop would be a tenth of the kernel's
  /// code.
  __device__ void init() {
    const int i = threadIdx.x;
    if (i < Shape::kWarps * Shape::kDepth) full[i].init(1);
    if (i < Shape::kSets) summed[i].init(Shape::kWarps), ready[i].init(1);
    fence_mbarrier_init();
  }
};

/// The sum of a row over the blocks of a group. Each stores its part kCopies times, so that many
/// blocks do not all read the same address in L2. Value and flag are one word (0 means "not there",
/// so a sum of zero is stored as −0): no fence and no ordering is needed.
template <int kBlocks>
struct RingRowSum {
  static constexpr int kCopies = norm_ring_copies(kBlocks), kRow = kCopies * kBlocks;
  int member;

  __device__ static void store(double* to, double part) {
    asm volatile("st.relaxed.gpu.global.f64 [%0], %1;" ::"l"(to), "d"(part) : "memory");
  }
  /// Called before any block's publish_part: marks this block's parts of `rows` rows as not there.
  /// The first row's parts are at `row`, each next row's `step` further. A single asm statement,
  /// like the waits: a loop costs 2 ms of compile time.
  __device__ void clear(double* row, int rows, int64_t step, int lane) const {
    asm volatile(
        "{\n .reg .pred p;\n .reg .b64 at;\n .reg .s32 left;\n mov.b64 at, %0;\n"
        " mov.s32 left, %1;\n again:\n setp.gt.s32 p, left, 0;\n"
        " @p st.relaxed.gpu.global.b64 [at], 0;\n add.s64 at, at, %2;\n sub.s32 left, left, 1;\n"
        " @p bra again;\n}" ::"l"(row + lane * kBlocks + member),
        "r"(lane < kCopies ? rows : 0), "l"(step * 8)
        : "memory");
  }
  /// Adds this block's part and returns the row's total to every lane of the calling warp. Parts
  /// that have arrived are not loaded again: loading all parts in each turn, two at a time, took
  /// 2 % longer (H200, 16×4194304).
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

/// The group's rows, and this block's columns of them: a row is kStages fronts, and each front is
/// divided evenly among the blocks, so that together they read memory sequentially.
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
  /// Address of access `first` in the first of the rows; `step`: bytes from one row to the next.
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

  /// Accesses in the warp's part of a stage.
  __device__ int count(int stage) const {
    if constexpr (S.full) return Shape::kStage;
    return max(0, min(min(left, Shape::kStage), rows.width - stage * rows.front - first + lane));
  }
  __device__ bool holds(int stage, int j) const {
    return S.full || j * kWarp + lane < count(stage);
  }
  /// Byte offset of a stage from its row's pointer.
  __device__ int64_t bytes(int stage) const { return int64_t{stage * rows.front} * 16; }
  /// Address of this lane's access `j` in a slot of the ring, and in a place for residuals.
  __device__ uint32_t slot(int slot, int j = 0) const {
    return kept + (slot * Shape::kStage + j * kWarp) * 16;
  }
  __device__ uint32_t residual(int place, int j = 0) const {
    return residuals + (place * Shape::kStage + j * kWarp) * 16;
  }

  /// Adds the squares of a stage that has arrived; with `add`, h replaces x in its slot and is
  /// written out.
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
  /// Loads the weights of the stage that is written next. They hit L2, since the rows are evicted
  /// first. Holding them in registers over all rows costs more than it saves (H200, 16×4194304: 79
  /// µs versus 76).
  __device__ void load_weights(Weights& weights, int stage) const {
    constexpr int N = norm_elements(S);
#pragma unroll
    for (int j = 0; j < C.step; ++j)
      if (holds(stage, j))
        weights[j] = load_weight<S, Cache::kEarly>(
            p.weight, (int64_t{stage * rows.front} + first + j * kWarp) * N);
  }

  /// Writes the result of a stage whose row's total is known.
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

  /// Sums the squares of the warp's part of a row again, in f64; its last stage is in slot `at`. A
  /// single loop, since loops take the longest to compile.
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

/// A stage of a row; stages before row 0 have negative rows.
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

/// The copies that one lane of a warp issues: stage after stage, row after row.
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

  /// Issues the copy of the next stage to slot `to`, tracked by barrier `place`.
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

/// The summing warp: takes rows in order, until it has returned the last one's total.
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

/// Publishes a warp's complete part of a row; its last stage is in slot `at`.
template <NormCudaTraits S, NormRingConfig C>
__device__ inline void publish_part(const NormRing<S, C>& ring, const Squares& squares, int at,
                                    int set, RingSums<S, C>& sums) {
  const float sum = squares.sum();
  // Each lane tests its own part, which leaves f32's range where the row does; with eps = 0, also
  // where the lane holds only zeros. The vote tells the compiler that the branch is uniform:
  // shuffles after a loop that only some lanes may have run need code for diverged lanes, which was
  // a fifth of the kernel.
  const bool wide = __any_sync(0xffffffffu, leaves_f32(sum, ring.p));
  const double part = warp_sum(wide ? ring.sum_wide(at) : sum);
  if (ring.lane > 0) return;
  sums.parts[set][threadIdx.x / kWarp] = part;
  sums.summed[set].arrive();
}

/// All other warps: the streaming loop.
template <NormCudaTraits S, NormRingConfig C>
__device__ inline void stream_rows(const NormRing<S, C>& ring, RingSums<S, C>& sums) {
  using Shape = RingShape<S, C>;
  constexpr int kStages = Shape::kStages, kLag = Shape::kLag, kDepth = Shape::kDepth;
  const NormCudaParams& p = ring.p;
  RingRequests<S, C> requests(ring);
  // Load the weight first: it would queue behind the rows (H200, 16×4194304: 75.4 → 74.7 µs).
  typename NormRing<S, C>::Weights weights;
  ring.load_weights(weights, 0);

  // Each turn issues the load of one stage, sums the stage issued kDepth turns ago, and writes the
  // stage summed kLag turns ago; stages before the first row and after the last are skipped. The
  // stage to load reuses the slot of the stage just written.
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
  // The shuffle makes the index warp-uniform for the compiler: later shuffles need no code for
  // diverged lanes.
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
