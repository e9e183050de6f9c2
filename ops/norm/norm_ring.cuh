// RMS norm of long rows as a stream: blocks stay on their multiprocessors, every thread asks for
// elements of later rows (cp.async) while it sums one row and writes the row before, so reads and
// writes never take turns. A row is shared by the blocks of a group: a cluster, or more of the
// grid. Each thread has a ring of its own accesses in shared memory, so nothing but sums is
// synchronised:
//
//      stage k         k + 1 … k + depth − 1        k − ahead·stages
//   wait > sum it    in flight                    write its result, then ask for stage k + depth
//
// In: x [T, C], weight [C], and residual; rows aligned to 16 bytes. Out: y, and residual_out. A
// row's elements are in shared memory before it is written, so results may lie where x and residual
// do. Flow: call > validate > select > compile > [launch].  Read next: ops/norm/norm_stages.cuh.
#pragma once

#include "device/cp_async.cuh"
#include "ops/norm/norm_meeting.cuh"

namespace dlblas {

/// A row's total over its group. Row i's part is handed in before row i + kAhead's total is asked
/// for. This one: a block on its own.
template <int kBlocks, int kAhead, bool kCluster = (kBlocks > 1 && kBlocks <= 8)>
class GroupSum {
 public:
  static_assert(kBlocks == 1 && kAhead == 1, "a block knows its own sum at once");
  struct Shared {};
  __device__ GroupSum(Shared&, const NormMeeting&) {}
  __device__ void hand_in(double part, int, int64_t) { part_ = part; }
  __device__ double total(int, int64_t) const { return part_; }

 private:
  double part_ = 0;
};

/// A cluster: parts are written into each other's shared memory and counted at a barrier there. A
/// block may hand in row i when all have asked for row i − 2·kAhead: so many sets of parts.
template <int kBlocks, int kAhead>
class GroupSum<kBlocks, kAhead, true> {
 public:
  static constexpr int kSets = 2 * kAhead;
  struct Shared {
    double parts[kSets][kBlocks];
    Mbarrier full[kSets];
  };
  __device__ GroupSum(Shared& shared, const NormMeeting&) : shared_(shared) {
    if (threadIdx.x == 0) {
      for (Mbarrier& full : shared.full) full.init(kBlocks);
      fence_mbarrier_init();
    }
    cluster_sync();
  }
  __device__ void hand_in(double part, int i, int64_t) {
    if (threadIdx.x >= kBlocks) return;
    const int set = i % kSets;
    store_remote(map_to_rank(&shared_.parts[set][cluster_rank()], threadIdx.x), part);
    shared_.full[set].arrive_at(threadIdx.x);
  }
  __device__ double total(int i, int64_t) {
    const int set = i % kSets;
    shared_.full[set].wait_cluster((i / kSets) & 1);
    double sum = 0;
#pragma unroll
    for (int rank = 0; rank < kBlocks; ++rank) sum += shared_.parts[set][rank];
    return sum;
  }

 private:
  Shared& shared_;
};

/// Many blocks: parts meet in the workspace.
template <int kBlocks, int kAhead>
requires(kBlocks > 8) class GroupSum<kBlocks, kAhead, false> {
 public:
  struct Shared {
    double total[2];
  };
  __device__ GroupSum(Shared& shared, const NormMeeting& meeting)
      : shared_(shared), meeting_(meeting) {}
  __device__ void hand_in(double part, int, int64_t row) {
    if (threadIdx.x < kWarp) dlblas::hand_in(part, row, blockIdx.x % kBlocks, meeting_);
  }
  __device__ double total(int i, int64_t row) {
    return total_of(row, &shared_.total[i & 1], meeting_);
  }

 private:
  Shared& shared_;
  const NormMeeting& meeting_;
};

__device__ inline int next_slot(int slot, int slots) { return slot + 1 == slots ? 0 : slot + 1; }

/// One block's view of the stream: its part of a row, its rows, its places in the rings.
template <NormCudaTraits S, NormRingConfig C>
struct NormRing {
  static constexpr int N = norm_elements(S), kStages = C.vectors / C.step;
  static constexpr int kDepth = norm_ring_depth(S, C), kSlots = kDepth + C.ahead * kStages;

  const NormCudaParams& p;
  NormVec<S>*kept, *residuals;  // this thread's places in the first slot; others C.threads apart
  int64_t begin, end;           // this thread's first access, and the end of the block's part
  int64_t group, groups;        // rows group, group + groups, …
  int rows;                     // of this group

  __device__ int64_t row(int i) const { return group + i * groups; }
  __device__ int64_t access(int stage, int i) const {
    return begin + (stage * C.step + i) * C.threads;
  }
  __device__ static int place(int slot, int i) { return (slot * C.step + i) * C.threads; }

  /// Asks for stage `stage` of row i; nothing, but still a group, when the rows have ended.
  __device__ void ask(int i, int stage, int slot, int residual_slot) const {
    if (i < rows) {
#pragma unroll
      for (int j = 0; j < C.step; ++j) {
        const int64_t at = access(stage, j);
        const int valid = at < end ? 16 : 0;
        const int64_t column = (at < end ? at : begin) * N;
        cp_async(shared_address(kept + place(slot, j)),
                 at_element<S.type>(p.x, row(i) * p.x_stride + column), valid);
        if constexpr (S.add)
          cp_async(shared_address(residuals + place(residual_slot, j)),
                   at_element<S.type>(p.residual, row(i) * p.residual_stride + column), valid);
      }
    }
    cp_async_commit();
  }

  /// Squares of a stage that has landed; with `add`, h takes x's place and is written.
  __device__ void sum(Squares& squares, int i, int stage, int slot, int residual_slot) const {
#pragma unroll
    for (int j = 0; j < C.step; ++j) {
      NormVec<S> h = kept[place(slot, j)];
      if constexpr (S.add) {
        h = add_residual<S>(h, residuals[place(residual_slot, j)]);
        kept[place(slot, j)] = h;
        const int64_t at = access(stage, j);
        if (at < end) store_row<S>(p.residual_out, row(i) * p.residual_out_stride + at * N, h);
      }
      squares.take(h);
    }
  }

  /// The result of a stage whose row has its total.
  __device__ void write(int i, int stage, int slot, const NormWeightVec<S>* weights,
                        float scale) const {
#pragma unroll
    for (int j = 0; j < C.step; ++j) {
      const int64_t at = access(stage, j);
      if (at < end)
        store_row<S>(p.y, row(i) * p.y_stride + at * N,
                     normalize<S>(kept[place(slot, j)], weights[j], scale, p.weight_offset));
    }
  }
  /// The result of a row that f32 cannot scale; its first stage is in `slot`.
  __device__ void write_wide(int i, int slot, double scale) const {
#pragma unroll 1
    for (int k = 0; k < C.vectors; ++k) {
      const int64_t at = access(0, k);
      if (at < end)
        normalize_wide<S>(at_element<S.type>(p.y, row(i) * p.y_stride + at * N),
                          &kept[place(slot, k % C.step)], at_element<S.weight>(p.weight, at * N), N,
                          scale, p.weight_offset);
      if (k % C.step == C.step - 1) slot = next_slot(slot, kSlots);
    }
  }

  /// Squares of a row again, in f64; its first stage is in `slot`.
  __device__ double sum_wide(int slot) const {
    double sum = 0;
#pragma unroll 1
    for (int k = 0; k < C.vectors; ++k) {
      sum += squares_wide<S>(kept, place(slot, k % C.step) * N, N);
      if (k % C.step == C.step - 1) slot = next_slot(slot, kSlots);
    }
    return sum;
  }
};

template <NormCudaTraits S, NormRingConfig C>
__global__ void __launch_bounds__(C.threads, C.share)
    norm_ring(const __grid_constant__ NormRingParams params) {
  static_assert(valid(S, C, 90));
  using Ring = NormRing<S, C>;
  using Group = GroupSum<C.blocks, C.ahead>;
  constexpr int kStages = Ring::kStages, kDepth = Ring::kDepth, kSlots = Ring::kSlots;
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  __shared__ double slots[RowSum<C.threads>::kSlots];
  __shared__ typename Group::Shared shared;
  const NormCudaParams& p = params.call;
  RowSum<C.threads> threads(slots, 1, threadIdx.x);
  Group blocks(shared, params.meeting);

  const int64_t accesses = p.width / Ring::N, part = (accesses + C.blocks - 1) / C.blocks;
  const int64_t start = part * (blockIdx.x % C.blocks);
  const int64_t group = blockIdx.x / C.blocks, groups = gridDim.x / C.blocks;
  auto* kept = reinterpret_cast<NormVec<S>*>(dynamic_shared) + threadIdx.x;
  const Ring ring = {p,
                     kept,
                     kept + Ring::place(kSlots, 0),
                     min(start + threadIdx.x, accesses),
                     min(start + part, accesses),
                     group,
                     groups,
                     static_cast<int>((p.rows - group + groups - 1) / groups)};
  NormWeightVec<S> weights[C.vectors];
#pragma unroll
  for (int i = 0; i < C.vectors; ++i) {
    const int64_t at = ring.access(0, i);
    weights[i] = at < ring.end ? load_weight<S, Cache::kEarly>(p.weight, at * Ring::N)
                               : NormWeightVec<S>::zero();
  }
  // Row and stage to ask for next, and its slots; the slot to sum, and the one to write.
  int ask_row = 0, ask_stage = 0, ask_slot = 0, ask_residual = 0;
  int sum_slot = 0, sum_residual = 0, write_slot = 0;
  const auto ask = [&] {
    ring.ask(ask_row, ask_stage, ask_slot, ask_residual);
    ask_slot = next_slot(ask_slot, kSlots);
    ask_residual = next_slot(ask_residual, kDepth);
    if (++ask_stage == kStages) ask_stage = 0, ++ask_row;
  };
  for (int i = 0; i < kDepth; ++i) ask();
  for (int i = 0; i < ring.rows + C.ahead; ++i) {
    const int before = i - C.ahead;  // the row whose total is there
    const double total = before >= 0 ? blocks.total(before, ring.row(before)) : 0;
    const bool wide = before >= 0 && leaves_f32(total, p);
    if (wide) ring.write_wide(before, write_slot, wide_scale(total, p));
    const float scale = norm_scale(static_cast<float>(total), p);
    const int first_slot = sum_slot;
    Squares squares;
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      cp_async_wait<kDepth - 1>();
      if (i < ring.rows) ring.sum(squares, i, stage, sum_slot, sum_residual);
      sum_slot = next_slot(sum_slot, kSlots);
      sum_residual = next_slot(sum_residual, kDepth);
      if (before >= 0) {
        if (!wide) ring.write(before, stage, write_slot, weights + stage * C.step, scale);
        write_slot = next_slot(write_slot, kSlots);
      }
      ask();
    }
    if (i >= ring.rows) continue;
    const float sum = threads.sum(squares.sum());
    double exact = sum;
    if (leaves_f32(sum, p)) exact = threads.sum(ring.sum_wide(first_slot));
    blocks.hand_in(exact, i, ring.row(i));
  }
}

}  // namespace dlblas
