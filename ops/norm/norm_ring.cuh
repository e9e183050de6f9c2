// RMS norm of long rows as a stream: blocks stay on their multiprocessors, every thread asks for
// elements of later rows (cp.async) while it sums one row and writes the row before, so reads and
// writes never take turns. A row is shared by the blocks of a group, always in the same columns.
// Each thread has a ring of its own accesses in shared memory:
//
//      stage k         k + 1 … k + depth − 1        k − lag
//   wait > sum it    in flight                    write its result, then ask for stage k + depth
//
// Nobody waits for others but for a row's total, which is some stages old when it is needed: one
// more warp adds up what the others' lanes hold, meets the group's other blocks, and hands the
// total back through barriers in shared memory. So no thread that writes results ever fences.
// In: x [T, C], weight [C], and residual; rows aligned to 16 bytes. Out: y, and residual_out. A
// row's elements are in shared memory before it is written, so results may lie where x and residual
// do. Flow: call > validate > select > compile > [launch].  Read next: ops/norm/norm_stages.cuh.
#pragma once

#include "device/cp_async.cuh"
#include "device/pdl.cuh"
#include "ops/norm/norm_stages.cuh"

namespace dlblas {

/// Numbers of a configuration, in stages unless said otherwise.
template <NormCudaTraits S, NormRingConfig C>
struct RingShape {
  static constexpr int kStages = norm_ring_stages(C), kLag = norm_ring_lag(S, C);
  static constexpr int kDepth = C.depth, kSlots = kDepth + kLag;
  static constexpr int kWarps = C.threads / kWarp;
  /// Rows that a thread may have summed before it needs the total of the first of them; and one
  /// more set of sums, for whoever is behind.
  static constexpr int kSets = (kLag + 1) / kStages + 1;
};

/// A block's sums on their way: warps' parts to the warp of sums, the row's total back.
template <NormCudaTraits S, NormRingConfig C>
struct RingSums {
  using Shape = RingShape<S, C>;
  double parts[Shape::kSets][Shape::kWarps];
  double totals[Shape::kSets];
  Mbarrier summed[Shape::kSets], ready[Shape::kSets];

  __device__ void init() {
    for (Mbarrier& barrier : summed) barrier.init(Shape::kWarps);
    for (Mbarrier& barrier : ready) barrier.init(1);
    fence_mbarrier_init();
  }
};

/// From a block's part to the total of the group's blocks, by a warp; every lane gets it. Values
/// and flags are the same words (0 is "not there", so a sum of zero says −0): no fence, no order.
/// `parts` are the row's: kCopies of them, so that many blocks do not all ask one place of L2.
template <int kBlocks>
__device__ inline double meet_in_memory(double part, double* parts, int member, int lane) {
  constexpr int kEach = (kBlocks + kWarp - 1) / kWarp, kCopies = norm_ring_copies(kBlocks);
  if (lane < kCopies)
    asm volatile("st.relaxed.gpu.global.f64 [%0], %1;" ::"l"(parts + lane * kBlocks + member),
                 "d"(part == 0 ? -0.0 : part)
                 : "memory");
  parts += member % kCopies * kBlocks;
  double values[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) values[i] = lane + i * kWarp < kBlocks ? 0 : -0.0;
  bool there;
  do {
    there = true;
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (__double_as_longlong(values[i]) == 0)
        asm volatile("ld.relaxed.gpu.global.f64 %0, [%1];"
                     : "=d"(values[i])
                     : "l"(parts + lane + i * kWarp)
                     : "memory");
#pragma unroll
    for (int i = 0; i < kEach; ++i) there = there && __double_as_longlong(values[i]) != 0;
  } while (!__all_sync(0xffffffffu, there));
  double sum = values[0];
#pragma unroll
  for (int i = 1; i < kEach; ++i) sum += values[i];
  return warp_sum(sum);
}

/// As cp_async; what comes from `from` is the first to leave L2.
__device__ __forceinline__ void cp_async_pass(uint32_t to_shared, const void* from) {
  asm volatile(
      "{\n .reg .b64 policy;\n"
      " createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
      " cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, policy;\n}" ::"r"(
          to_shared),
      "l"(from)
      : "memory");
}

/// A place in the stream: a stage of one of the group's rows, and its slot.
template <int kStages, int kSlots>
struct RingCursor {
  int slot = 0, stage = 0, row = 0;
  __device__ void advance() {
    if (++slot == kSlots) slot = 0;
    if (++stage == kStages) stage = 0, ++row;
  }
};

/// One thread's view of the stream.
template <NormCudaTraits S, NormRingConfig C>
struct NormRing {
  using Shape = RingShape<S, C>;
  using Cursor = RingCursor<Shape::kStages, Shape::kSlots>;
  static constexpr int N = norm_elements(S);
  static constexpr Cache kResults = C.pass ? Cache::kStream : Cache::kDefault;

  const NormCudaParams& p;
  NormWeightVec<S>* weights;    // this thread's places in shared memory, all C.threads apart
  NormVec<S>*kept, *residuals;  // the same, from the first slot on
  int64_t first;                // the column of its first access
  int held;                     // accesses that it has of a row
  int64_t group, groups;        // rows group, group + groups, …
  int rows;                     // of this group

  __device__ int64_t row(int i) const { return group + i * groups; }
  __device__ bool holds(int access) const { return S.full || access < held; }
  __device__ static int column(int access) { return access * C.threads * N; }
  __device__ static int place(int slot, int i) { return (slot * C.step + i) * C.threads; }
  /// Element offset of this thread's first access to a stage, in a tensor of this stride.
  __device__ int64_t offset(const Cursor& at, int64_t stride) const {
    return row(at.row) * stride + first + column(at.stage * C.step);
  }

  __device__ static void copy(NormVec<S>* to, const void* from, int64_t offset) {
    const void* element = at_element<S.type>(from, offset);
    if constexpr (C.pass)
      cp_async_pass(shared_address(to), element);
    else
      cp_async(shared_address(to), element, 16);
  }
  /// Asks for a stage; nothing, but still a group, when the rows have ended.
  __device__ void ask(const Cursor& at, int residual_slot) const {
    if (at.row < rows) {
      const int64_t x = offset(at, p.x_stride), residual = offset(at, p.residual_stride);
#pragma unroll
      for (int j = 0; j < C.step; ++j) {
        if (!holds(at.stage * C.step + j)) continue;
        copy(kept + place(at.slot, j), p.x, x + column(j));
        if constexpr (S.add)
          copy(residuals + place(residual_slot, j), p.residual, residual + column(j));
      }
    }
    cp_async_commit();
  }

  /// Squares of a stage that has landed; with `add`, h takes x's place and is written.
  __device__ void sum(Squares& squares, const Cursor& at, int residual_slot) const {
    const int64_t to = offset(at, p.residual_out_stride);
#pragma unroll
    for (int j = 0; j < C.step; ++j) {
      if (!holds(at.stage * C.step + j)) continue;
      NormVec<S> h = kept[place(at.slot, j)];
      if constexpr (S.add) {
        h = add_residual<S>(h, residuals[place(residual_slot, j)]);
        kept[place(at.slot, j)] = h;
        store_row<S, kResults>(p.residual_out, to + column(j), h);
      }
      squares.take(h);
    }
  }

  using Weights = NormWeightVec<S>[C.step];
  /// The weight of a stage: kept, or asked for well before it is used.
  __device__ void load_weights(Weights& stage_weights, int stage) const {
#pragma unroll
    for (int j = 0; j < C.step; ++j) {
      const int access = stage * C.step + j;
      if constexpr (C.keep)
        stage_weights[j] = weights[access * C.threads];
      else if (holds(access))
        stage_weights[j] = load_weight<S, Cache::kEarly>(p.weight, first + column(access));
    }
  }
  /// The result of a stage whose row has its total.
  __device__ void write(const Cursor& at, const Weights& weight, float scale) const {
    const int64_t to = offset(at, p.y_stride);
#pragma unroll
    for (int j = 0; j < C.step; ++j)
      if (holds(at.stage * C.step + j))
        store_row<S, kResults>(
            p.y, to + column(j),
            normalize<S>(kept[place(at.slot, j)], weight[j], scale, p.weight_offset));
  }
  /// The same where f32 cannot scale the row.
  __device__ void write_wide(const Cursor& at, double scale) const {
    const int64_t to = offset(at, p.y_stride);
#pragma unroll 1
    for (int j = 0; j < C.step; ++j)
      if (holds(at.stage * C.step + j))
        normalize_wide<S>(at_element<S.type>(p.y, to + column(j)), kept + place(at.slot, j),
                          weights + (at.stage * C.step + j) * C.threads, N, scale, p.weight_offset);
  }

  /// Squares of a row again, in f64; its last stage is in `slot`.
  __device__ double sum_wide(int slot) const {
    double sum = 0;
#pragma unroll 1
    for (int k = C.vectors - 1; k >= 0; --k) {
      if (holds(k)) sum += squares_wide<S>(kept, int64_t{place(slot, k % C.step)} * N, N);
      if (k % C.step == 0) slot = (slot > 0 ? slot : Shape::kSlots) - 1;
    }
    return sum;
  }
};

/// The warp of sums: rows in order, until the last one's total is handed back.
template <NormCudaTraits S, NormRingConfig C, typename Ring, typename Blocks>
__device__ inline void add_up(const Ring& ring, RingSums<S, C>& sums, Blocks& blocks,
                              double* parts) {
  using Shape = RingShape<S, C>;
  const int lane = threadIdx.x % kWarp;
  RingPlace<Shape::kSets> place;
  for (int i = 0; i < ring.rows; ++i, place.advance()) {
    sums.summed[place.stage].wait(place.parity);
    double sum = warp_sum(lane < Shape::kWarps ? sums.parts[place.stage][lane] : 0.0);
    if constexpr (C.meet)
      sum =
          meet_in_memory<C.blocks>(sum, parts + ring.row(i) * C.blocks * norm_ring_copies(C.blocks),
                                   blockIdx.x % C.blocks, lane);
    else
      sum = blocks.sum(sum);
    __syncwarp();
    if (lane > 0) continue;
    sums.totals[place.stage] = sum;
    sums.ready[place.stage].arrive();
  }
}

/// All other warps: the stream.
template <NormCudaTraits S, NormRingConfig C, typename Ring>
__device__ inline void stream_rows(const Ring& ring, RingSums<S, C>& sums) {
  using Shape = RingShape<S, C>;
  const NormCudaParams& p = ring.p;
  typename Ring::Cursor asked, summed, written;
#pragma unroll 1
  for (int i = 0; i < Shape::kDepth; ++i, asked.advance()) ring.ask(asked, i);
  if constexpr (C.keep)
#pragma unroll 1
    for (int i = 0; i < C.vectors; ++i)
      if (ring.holds(i))
        ring.weights[i * C.threads] = load_weight<S>(p.weight, ring.first + Ring::column(i));

  RingPlace<Shape::kSets> handed, ready;
  typename Ring::Weights weights;
  ring.load_weights(weights, 0);
  Squares squares;
  double total = 0;
  int residual_slot = 0;
#pragma unroll 1
  for (int lag = Shape::kLag; written.row < ring.rows; asked.advance()) {
    cp_async_wait<Shape::kDepth - 1>();
    if (summed.row < ring.rows) {
      ring.sum(squares, summed, residual_slot);
      if (summed.stage == Shape::kStages - 1) {
        const SquareSum sum = sum_squares(
            squares.sum(), p, [](float v) { return warp_sum(v); },
            [&] { return ring.sum_wide(summed.slot); });
        squares = Squares();
        if (threadIdx.x % kWarp == 0) {
          sums.parts[handed.stage][threadIdx.x / kWarp] = sum.exact();
          sums.summed[handed.stage].arrive();
        }
        handed.advance();
      }
    }
    summed.advance();
    if (--lag < 0) {
      if (written.stage == 0) {
        sums.ready[ready.stage].wait(ready.parity);
        total = sums.totals[ready.stage];
        ready.advance();
      }
      if (leaves_f32(total, p))
        ring.write_wide(written, wide_scale(total, p));
      else
        ring.write(written, weights, norm_scale(static_cast<float>(total), p));
      written.advance();
      ring.load_weights(weights, written.stage);
    }
    ring.ask(asked, residual_slot);
    if (++residual_slot == Shape::kDepth) residual_slot = 0;
  }
}

template <NormCudaTraits S, NormRingConfig C>
__global__ void __launch_bounds__(C.threads + kWarp)
    norm_ring(const __grid_constant__ NormRingParams params) {
  static_assert(valid(S, C, 90));
  using Shape = RingShape<S, C>;
  using Ring = NormRing<S, C>;
  using Blocks = ClusterSum<C.meet ? 1 : C.blocks>;
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  __shared__ RingSums<S, C> sums;
  __shared__ typename Blocks::Shared shared;
  const NormCudaParams& p = params.call;
  const bool adds_up = threadIdx.x >= C.threads;
  if (threadIdx.x == 0) sums.init();
  Blocks blocks(shared, adds_up ? threadIdx.x - C.threads : kWarp);

  const int64_t accesses = p.width / Ring::N, part = (accesses + C.blocks - 1) / C.blocks;
  const int64_t start = part * (blockIdx.x % C.blocks) + threadIdx.x;
  const int64_t left = min(accesses, start - threadIdx.x + part) - start;
  const int64_t group = blockIdx.x / C.blocks, groups = gridDim.x / C.blocks;
  auto* weights = reinterpret_cast<NormWeightVec<S>*>(dynamic_shared) + threadIdx.x;
  auto* kept =
      reinterpret_cast<NormVec<S>*>(dynamic_shared + norm_ring_weight_bytes(S, C)) + threadIdx.x;
  const Ring ring = {p,
                     weights,
                     kept,
                     kept + Ring::place(Shape::kSlots, 0),
                     start * Ring::N,
                     left <= 0 ? 0 : static_cast<int>((left + C.threads - 1) / C.threads),
                     group,
                     groups,
                     static_cast<int>((p.rows - group + groups - 1) / groups)};
  __syncthreads();
  blocks.start();
  wait_for_dependencies();
  launch_dependents();
  if (adds_up)
    add_up<S, C>(ring, sums, blocks, params.parts);
  else
    stream_rows<S, C>(ring, sums);
}

}  // namespace dlblas
