// RMS norm of long rows as a stream: blocks stay on their multiprocessors, every thread asks for
// elements of later rows (cp.async) while it sums one row and writes the row before, so reads and
// writes never take turns. A row is shared by the blocks of a group, always in the same columns:
// the weight is read once. Each thread has a ring of its own accesses in shared memory:
//
//      stage k         k + 1 … k + depth − 1        k − lag
//   wait > sum it    in flight                    write its result, then ask for stage k + depth
//
// Nobody waits for others but for a row's total, which is `ahead` stages old when it is needed: one
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
  static constexpr int kStages = norm_ring_stages(C), kLag = norm_ring_lag(C);
  static constexpr int kDepth = norm_ring_depth(S, C), kSlots = kDepth + kLag;
  static constexpr int kWarps = C.threads / kWarp;
  /// Rows that a thread may have summed before it needs the total of the first of them; and one
  /// more set of sums, for whoever is behind.
  static constexpr int kSets = (C.ahead + kStages) / kStages + 1;
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
template <int kBlocks>
__device__ inline double meet_in_memory(double part, double* parts, int member, int lane) {
  constexpr int kEach = (kBlocks + kWarp - 1) / kWarp;
  if (lane == 0)
    asm volatile("st.relaxed.gpu.global.f64 [%0], %1;" ::"l"(parts + member),
                 "d"(part == 0 ? -0.0 : part)
                 : "memory");
  double values[kEach];
  bool there;
  do {
    there = true;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      values[i] = -0.0;
      const int other = lane + i * kWarp;
      if (kBlocks % kWarp == 0 || other < kBlocks)
        asm volatile("ld.relaxed.gpu.global.f64 %0, [%1];"
                     : "=d"(values[i])
                     : "l"(parts + other)
                     : "memory");
      there = there && __double_as_longlong(values[i]) != 0;
    }
  } while (!__all_sync(0xffffffffu, there));
  double sum = values[0];
#pragma unroll
  for (int i = 1; i < kEach; ++i) sum += values[i];
  return warp_sum(sum);
}

__device__ inline int next_slot(int slot, int slots) { return slot + 1 == slots ? 0 : slot + 1; }

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

/// One thread's view of the stream.
template <NormCudaTraits S, NormRingConfig C>
struct NormRing {
  using Shape = RingShape<S, C>;
  static constexpr int N = norm_elements(S), kSlots = Shape::kSlots;
  static constexpr Cache kResults = C.pass ? Cache::kStream : Cache::kDefault;

  const NormCudaParams& p;
  NormVec<S>*kept, *residuals;  // this thread's places in the first slot; others C.threads apart
  int64_t first;                // the column of its first access
  int held;                     // accesses that it has of a row
  int64_t group, groups;        // rows group, group + groups, …
  int rows;                     // of this group

  __device__ int64_t row(int i) const { return group + i * groups; }
  __device__ bool holds(int access) const { return S.full || access < held; }
  __device__ static constexpr int column(int access) { return access * C.threads * N; }
  __device__ static int place(int slot, int i) { return (slot * C.step + i) * C.threads; }
  /// Element offset of row i's first access in a tensor of this stride.
  __device__ int64_t offset(int i, int64_t stride) const { return row(i) * stride + first; }

  __device__ static void copy(NormVec<S>* to, const char* from) {
    if constexpr (C.pass)
      cp_async_pass(shared_address(to), from);
    else
      cp_async(shared_address(to), from, 16);
  }

  /// Asks for stage `stage` of row i; nothing, but still a group, when the rows have ended.
  __device__ void ask(int i, int stage, int slot, int residual_slot) const {
    if (i < rows) {
      const char* x = static_cast<const char*>(at_element<S.type>(p.x, offset(i, p.x_stride)));
      const char* residual = static_cast<const char*>(
          at_element<S.type>(p.residual, S.add ? offset(i, p.residual_stride) : 0));
#pragma unroll
      for (int j = 0; j < C.step; ++j) {
        const int access = stage * C.step + j;
        if (!holds(access)) continue;
        copy(kept + place(slot, j), x + column(access) * size_of(S.type));
        if constexpr (S.add)
          copy(residuals + place(residual_slot, j), residual + column(access) * size_of(S.type));
      }
    }
    cp_async_commit();
  }

  /// Squares of a stage that has landed; with `add`, h takes x's place and is written.
  __device__ void sum(Squares& squares, int i, int stage, int slot, int residual_slot) const {
    const int64_t to = S.add ? offset(i, p.residual_out_stride) : 0;
#pragma unroll
    for (int j = 0; j < C.step; ++j) {
      const int access = stage * C.step + j;
      if (!holds(access)) continue;
      NormVec<S> h = kept[place(slot, j)];
      if constexpr (S.add) {
        h = add_residual<S>(h, residuals[place(residual_slot, j)]);
        kept[place(slot, j)] = h;
        store_row<S, kResults>(p.residual_out, to + column(access), h);
      }
      squares.take(h);
    }
  }

  /// The result of a stage of row i, whose total is there.
  __device__ void write(int i, int stage, int slot, const NormWeightVec<S>* weights,
                        float scale) const {
    const int64_t to = offset(i, p.y_stride);
#pragma unroll
    for (int j = 0; j < C.step; ++j) {
      const int access = stage * C.step + j;
      if (holds(access))
        store_row<S, kResults>(p.y, to + column(access),
                               normalize<S>(kept[place(slot, j)], hide(weights[access], p.zero),
                                            scale, p.weight_offset));
    }
  }
  /// The result of a row that f32 cannot scale; its first stage is in `slot`.
  __device__ void write_wide(int i, int slot, double scale) const {
    const int64_t to = offset(i, p.y_stride);
#pragma unroll 1
    for (int k = 0; k < C.vectors; ++k) {
      if (holds(k))
        normalize_wide<S>(at_element<S.type>(p.y, to + column(k)), &kept[place(slot, k % C.step)],
                          at_element<S.weight>(p.weight, first + column(k)), N, scale,
                          p.weight_offset);
      if (k % C.step == C.step - 1) slot = next_slot(slot, kSlots);
    }
  }

  /// Squares of a row again, in f64; its first stage is in `slot`.
  __device__ double sum_wide(int slot) const {
    double sum = 0;
#pragma unroll 1
    for (int k = 0; k < C.vectors; ++k) {
      if (holds(k)) sum += squares_wide<S>(kept, int64_t{place(slot, k % C.step)} * N, N);
      if (k % C.step == C.step - 1) slot = next_slot(slot, kSlots);
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
      sum = meet_in_memory<C.blocks>(sum, parts + ring.row(i) * C.blocks, blockIdx.x % C.blocks,
                                     lane);
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
__device__ inline void stream_rows(const Ring& ring, RingSums<S, C>& sums,
                                   const NormWeightVec<S>* weights) {
  using Shape = RingShape<S, C>;
  constexpr int kStages = Shape::kStages, kLag = Shape::kLag, kDepth = Shape::kDepth;
  constexpr int kTail = (kLag + kStages - 1) / kStages;  // rows' time until the last is written
  const NormCudaParams& p = ring.p;
  RingPlace<Shape::kSets> summed, ready;
  // The slot to sum, and the one to write and then to fill again.
  int sum_slot = 0, residual_slot = 0, write_slot = kDepth;
  float scale = 0;
  bool wide = false;
  for (int i = 0; i < ring.rows + kTail; ++i) {
    const int first_slot = sum_slot;
    Squares squares;
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      const int write_row = i - (kLag - stage + kStages - 1) / kStages;
      const int write_stage = (stage + kStages * kTail - kLag) % kStages;
      const bool writes = write_row >= 0 && write_row < ring.rows;
      cp_async_wait<kDepth - 1>();
      if (i < ring.rows) ring.sum(squares, i, stage, sum_slot, residual_slot);
      if (write_stage == 0 && writes) {
        sums.ready[ready.stage].wait(ready.parity);
        const double total = sums.totals[ready.stage];
        ready.advance();
        wide = leaves_f32(total, p);
        if (wide) ring.write_wide(write_row, write_slot, wide_scale(total, p));
        scale = norm_scale(static_cast<float>(total), p);
      }
      if (writes && !wide) ring.write(write_row, write_stage, write_slot, weights, scale);
      ring.ask(i + (stage + kDepth) / kStages, (stage + kDepth) % kStages, write_slot,
               residual_slot);
      sum_slot = next_slot(sum_slot, Shape::kSlots);
      write_slot = next_slot(write_slot, Shape::kSlots);
      residual_slot = next_slot(residual_slot, kDepth);
    }
    if (i >= ring.rows) continue;
    const SquareSum sum = sum_squares(
        squares.sum(), p, [](float v) { return warp_sum(v); },
        [&] { return ring.sum_wide(first_slot); });
    if (threadIdx.x % kWarp == 0) {
      sums.parts[summed.stage][threadIdx.x / kWarp] = sum.exact();
      sums.summed[summed.stage].arrive();
    }
    summed.advance();
  }
}

template <NormCudaTraits S, NormRingConfig C>
__global__ void __launch_bounds__(C.threads + kWarp, C.share)
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
  auto* kept = reinterpret_cast<NormVec<S>*>(dynamic_shared) + threadIdx.x;
  const Ring ring = {p,
                     kept,
                     kept + Ring::place(Shape::kSlots, 0),
                     start * Ring::N,
                     left <= 0 ? 0 : static_cast<int>((left + C.threads - 1) / C.threads),
                     group,
                     groups,
                     static_cast<int>((p.rows - group + groups - 1) / groups)};
  wait_for_dependencies();
  launch_dependents();
  NormWeightVec<S> weights[C.vectors];
  if (!adds_up) {
#pragma unroll 1
    for (int i = 0; i < Shape::kDepth; ++i) ring.ask(i / Shape::kStages, i % Shape::kStages, i, i);
#pragma unroll
    for (int i = 0; i < C.vectors; ++i)
      weights[i] = ring.holds(i)
                       ? load_weight<S, Cache::kEarly>(p.weight, ring.first + Ring::column(i))
                       : NormWeightVec<S>::zero();
  }
  __syncthreads();
  blocks.start();
  if (adds_up)
    add_up<S, C>(ring, sums, blocks, params.parts);
  else
    stream_rows<S, C>(ring, sums, weights);
}

}  // namespace dlblas
