// The product on Hopper's WGMMA: one thread copies, one to three warpgroups multiply and store;
// blocks are persistent. sm_90a only.
// In: A [m, K] and B [n, K], each contiguous in either dimension, f16 or bf16, as tensor maps; a
// configuration (GemmWgmmaConfig); a program for the sums. Out: the program's results.
// Numerics: f32 sums in the tensor core's order over all of K, carried every S.span terms if that
// is not 0; a cluster's parts of K are added in the order of ranks, those of stream-K in the order
// of K. No sum is atomic: bits repeat.
//
//   warpgroup 0   one thread: tiles → ring (wgmma_ring.cuh), stages ahead
//   warpgroup 1   ring → WGMMA → registers → program → staging → copy engine
//   warpgroup 2   the same for the other half of the rows, or, in turn with 1, its own tile
//
// Flow: [launch], of ops/gemm/matmul/cuda/matmul_wgmma_cuda.cpp for one.
// Read next: wgmma_ring.cuh, wgmma_epilogue.cuh, docs/notes/gemm.md.
#pragma once

#include "device/carried_sum.cuh"
#include "device/gemm/wgmma_epilogue.cuh"
#include "device/gemm/wgmma_stream.cuh"
#include "device/pdl.cuh"
#include "device/wgmma.cuh"

namespace dlblas {

/// Ping-pong: the main loops of the two warpgroups take turns on the tensor cores.
struct GemmTurn {
  __device__ static __forceinline__ void wait(int32_t group) {
    asm volatile("bar.sync %0, 256;" ::"r"(group + 3) : "memory");
  }
  __device__ static __forceinline__ void pass(int32_t group) {
    asm volatile("bar.arrive %0, 256;" ::"r"((group ^ 1) + 3) : "memory");
  }
};

/// What run() does to a stage that has arrived, before it multiplies it: nothing. `left`: stages of
/// the tile that are not yet multiplied, including this one.
struct GemmStageAsItIs {
  __device__ __forceinline__ void operator()(int32_t /*left*/, uint32_t /*stage*/) const {}
};

/// One warpgroup's products: its rows of a tile over all of the block's K.
template <GemmTraits S, GemmWgmmaConfig C>
class GemmProduct {
 public:
  using Sums = float[C.row_blocks()][C.block_n / 2];

  /// `rows`: this warpgroup's first row in the tile.
  __device__ __forceinline__ GemmProduct(const GemmRing<S, C>& ring, int32_t rows)
      : ring_(ring), a_(descriptor_a(rows)), b_(descriptor_b()) {}

  /// Skips stages that belong to tiles of the other warpgroup.
  __device__ __forceinline__ void skip(int32_t stages) { at_.advance(stages); }

  template <class Ready = GemmStageAsItIs>
  __device__ __forceinline__ void run(Sums& d, int32_t count, int32_t group,
                                      const Ready& ready = {}) {
    if constexpr (C.pingpong) GemmTurn::wait(group);
    if constexpr (S.span == 0) {
      span<true>(d, count, 0, group, ready);
    } else {
      static_assert(!C.pingpong && S.span % C.block_k == 0);
      CarriedSums<C.sums(), C.warpgroups * 128> carried(ring_.carried,
                                                        static_cast<int>(threadIdx.x) - 128);
      constexpr int32_t kStages = S.span / C.block_k;
#pragma unroll 1
      for (; count > kStages; count -= kStages) {
        span<true>(d, kStages, count - kStages, group, ready);
        carried.add(&d[0][0]);  // clears them: pinned, or ptxas serialises what follows (C7515)
#pragma unroll
        for (auto& block : d) wgmma_pin(block);
      }
      span<true>(d, count, 0, group, ready);
      carried.finish(&d[0][0]);
    }
  }

  /// Adds the sums that other blocks have of the tile's remaining K: stream-K.
  __device__ __forceinline__ void add(Sums& d, int32_t givers) {
    add_given<S, C>(d, ring_, at_, givers);
  }

  /// As run, but adds the sums to totals in registers every kStages stages: a chain of additions
  /// in the tensor core spans at most kStages; 0: all.
  template <int32_t kStages, class Ready>
  __device__ __forceinline__ void run_in_spans(Sums& d, int32_t count, int32_t group,
                                               const Ready& ready) {
    if constexpr (C.pingpong) GemmTurn::wait(group);
    if constexpr (kStages == 0) {
      span<true>(d, count, 0, group, ready);
    } else {
      float totals[C.sums()] = {};
#pragma unroll 1
      for (; count > kStages; count -= kStages) {
        span<false>(d, kStages, count - kStages, group, ready);
        each(d, [&](float& sum, int i) { totals[i] += sum; });
#pragma unroll
        for (auto& block : d) wgmma_pin(block);
      }
      span<true>(d, count, 0, group, ready);
      each(d, [&](float& sum, int i) { sum += totals[i]; });
    }
  }

 private:
  static constexpr WgmmaInput kInput =
      S.type == DType::kBF16 ? WgmmaInput::kBF16 : WgmmaInput::kF16;
  static constexpr WgmmaMajor kMajorA = S.a_by_depth ? WgmmaMajor::kK : WgmmaMajor::kMN;
  static constexpr WgmmaMajor kMajorB = S.b_by_depth ? WgmmaMajor::kK : WgmmaMajor::kMN;
  static_assert(S.type == DType::kBF16 || S.type == DType::kF16);

  const GemmRing<S, C>& ring_;
  uint64_t a_, b_;  // of stage 0
  RingPlace<C.stages> at_;

  __device__ __forceinline__ uint64_t descriptor_a(int32_t rows) const {
    if constexpr (S.a_by_depth) return wgmma_tile_k(ring_.tiles + rows * 128);
    return wgmma_tile_mn(ring_.tiles + rows / 64 * C.block_k * 128, C.block_k * 128);
  }
  __device__ __forceinline__ uint64_t descriptor_b() const {
    const unsigned char* b = ring_.tiles + C.a_bytes();
    return S.b_by_depth ? wgmma_tile_k(b) : wgmma_tile_mn(b, C.block_k * 128);
  }
  /// Offsets from a stage's first 64 of K and 64 rows of A to others.
  static constexpr uint32_t step_a(int s, int r) {
    return S.a_by_depth ? (s * C.block_m + r * 64) * 128 : (r * C.block_k + s * 64) * 128;
  }
  static constexpr uint32_t step_b(int s) {
    return S.b_by_depth ? s * C.block_n * 128 : s * 64 * 128;
  }

  __device__ __forceinline__ void issue(Sums& d, int32_t accumulate) const {
    const uint32_t bytes = at_.stage * GemmRing<S, C>::kStageBytes;
    const uint64_t a = wgmma_advance(a_, bytes), b = wgmma_advance(b_, bytes);
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < C.steps(); ++s)
#pragma unroll
      for (int r = 0; r < C.row_blocks(); ++r)
        wgmma_row<C.block_n, kInput, kMajorA, kMajorB>(d[r], wgmma_advance(a, step_a(s, r)),
                                                       wgmma_advance(b, step_b(s)), accumulate | s);
    wgmma_commit();
  }

  template <class F>
  __device__ static __forceinline__ void each(Sums& d, const F& f) {
    constexpr int kEach = C.block_n / 2;
#pragma unroll
    for (int i = 0; i < C.sums(); ++i) f(d[i / kEach][i % kEach], i);
  }

  /// d = the sum over `count` stages; `after` more follow, and unless kLast this warpgroup keeps
  /// its turn for them. A stage is released once the next one's products are issued and its own
  /// have finished. The loop is not unrolled: NVVM made seven copies of it.
  template <bool kLast, class Ready>
  __device__ __forceinline__ void span(Sums& d, int32_t count, int32_t after, int32_t group,
                                       const Ready& ready) {
    uint32_t before = 0;
#pragma unroll 1
    for (int32_t i = 0; i < count; ++i) {
      ring_.full[at_.stage].wait(at_.parity);
      ready(after + count - i, at_.stage);
      issue(d, i);
      wgmma_wait<1>();
      if (i > 0) ring_.release(before);
      before = at_.stage;
      at_.advance();
    }
    if constexpr (C.pingpong && kLast) GemmTurn::pass(group);
    wgmma_wait<0>();
#pragma unroll
    for (auto& block : d) wgmma_pin(block);
    ring_.release(before);
  }
};

/// The product to use: 1-byte elements have another one (wgmma_codes.cuh), which begin() informs of
/// each tile.
template <GemmTraits S, GemmWgmmaConfig C, class P>
struct GemmProductOf {
  using Type = GemmProduct<S, C>;
};

/// Combines the cluster's sums of one tile: each strip of columns in the block that stores it, in
/// the order of ranks. Called by the multiplying warpgroups; the copying one passes the two cluster
/// barriers alongside. A thread's four sums of 8 columns are one access.
template <GemmTraits S, GemmWgmmaConfig C, class Epilogue>
__device__ __forceinline__ void meet(float (&d)[C.row_blocks()][C.block_n / 2],
                                     const GemmRing<S, C>& ring, uint32_t rank) {
  constexpr int kThreads = C.warpgroups * 128, kEach = C.block_n / 2, kSums = C.sums();
  float* const mine = reinterpret_cast<float*>(ring.tiles) + (threadIdx.x - 128) * 4;
  uint32_t theirs[C.cluster];
#pragma unroll
  for (int r = 0; r < C.cluster; ++r) theirs[r] = map_to_rank(mine, r);
  cluster_sync();  // all have multiplied: rings are free
#pragma unroll
  for (int i = 0; i < kSums; i += 4) {
    const uint32_t owner = Epilogue::owner_of(i % kEach / 4);
    if (owner == rank) continue;
    const uint32_t slot = rank < owner ? rank : rank - 1;  // of the owner's ring, others' by rank
    const float* const sums = &d[i / kEach][i % kEach];
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(
                     theirs[owner] + (slot * kSums + i) * kThreads * 4),
                 "f"(sums[0]), "f"(sums[1]), "f"(sums[2]), "f"(sums[3])
                 : "memory");
  }
  cluster_sync();
#pragma unroll
  for (int i = 0; i < kSums; i += 4) {
    if (Epilogue::owner_of(i % kEach / 4) != rank) continue;
    float* const sums = &d[i / kEach][i % kEach];
    float all[4];
#pragma unroll
    for (uint32_t r = 0; r < C.cluster; ++r) {
      const uint32_t slot = r < rank ? r : r - 1;
      float4 part = make_float4(sums[0], sums[1], sums[2], sums[3]);
      if (r != rank) part = *reinterpret_cast<const float4*>(mine + (slot * kSums + i) * kThreads);
      const float four[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) all[e] = r == 0 ? four[e] : all[e] + four[e];
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[e] = all[e];
  }
}

/// Moves registers from the copying warpgroup to the multiplying ones: from the 168 per thread of
/// 384 threads, or the 128 of 512.
template <GemmWgmmaConfig C>
__device__ __forceinline__ void give_registers() {
  if constexpr (C.warpgroups > 1) release_registers<40>();
}
template <GemmWgmmaConfig C>
__device__ __forceinline__ void get_registers() {
  if constexpr (C.warpgroups == 2) take_registers<C.normed() ? 168 : 232>();
  if constexpr (C.warpgroups == 3) take_registers<152>();
}

/// Where rows of A are normalised: wgmma_norm.cuh.
template <GemmTraits S, GemmWgmmaConfig C, class Product>
__device__ __forceinline__ void run_normed(Product& product, typename Product::Sums& d,
                                           int32_t count, const GemmWgmmaCall& call,
                                           const GemmRing<S, C>& ring, int32_t group);
template <GemmTraits S, GemmWgmmaConfig C, DType kGain>
__device__ __forceinline__ void scale_stages(const GemmWgmmaCall& call, const GemmRing<S, C>& ring);

/// Everything that a multiplying warpgroup does.
template <GemmTraits S, GemmWgmmaConfig C, class P>
__device__ __forceinline__ void consume(const GemmWgmmaCall& call, const GemmRing<S, C>& ring,
                                        int32_t group) {
  using Epilogue = GemmEpilogue<P, C>;
  const int32_t rows = C.pingpong ? 0 : group * 64 * C.row_blocks();
  GemmTiles<C, C.block_n / P::kParts> tiles(call);
  Epilogue epilogue(call, ring.staging + group * C.rounds() * kGemmRoundBytes, group, tiles.rank);
  using Product = typename GemmProductOf<S, C, P>::Type;
  Product product(ring, rows);
  if constexpr (C.pingpong) {  // the second begins with the second tile, and the first may go
    if (group == 1) product.skip(tiles.part().count), tiles.advance(), GemmTurn::pass(group);
  }
  // A product that is informed of each tile requests the tile's data before the epilogue of the
  // previous one.
  constexpr bool kBegins = requires { product.begin(call, GemmCorner{}, 0); };
  const auto begin = [&](const GemmPart& part) {
    if constexpr (kBegins)
      product.begin(call, GemmCorner{part.tile.row + rows, part.tile.column}, part.first);
  };
  if constexpr (kBegins) {
    if (tiles.more()) begin(tiles.part());
  }
#pragma unroll 1
  for (; tiles.more(); tiles.advance(C.pingpong ? 2 : 1)) {
    const GemmPart part = tiles.part();
    const auto at = [&](int r) {
      return GemmCorner{part.tile.row + rows + r * 64, part.tile.column};
    };
    typename Epilogue::FirstAsked asked[C.row_blocks()];
#pragma unroll
    for (int r = 0; r < C.row_blocks(); ++r) epilogue.ask(asked[r], at(r));
    typename Product::Sums d;
    if constexpr (C.normed())
      run_normed<S, C>(product, d, part.count, call, ring, group);
    else
      product.run(d, part.count, group);
    if constexpr (kBegins) {
      auto after = tiles;
      after.advance();
      if (after.more()) begin(after.part());
    }
    if constexpr (C.pingpong) product.skip(tiles.next_count());
    if constexpr (C.share == GemmShare::kK) {  // one tile a cluster
      meet<S, C, Epilogue>(d, ring, tiles.rank);
      if (tiles.rank >= Epilogue::kStrips) break;
    }
    if constexpr (C.stream) {
      if (part.first > 0) {
        give<S, C>(d, call, group);
        continue;
      }
      product.add(d, part.givers);
    }
#pragma unroll
    for (int r = 0; r < C.row_blocks(); ++r) epilogue.run(d[r], asked[r], at(r));
    if constexpr (C.share == GemmShare::kK || C.normed()) break;
  }
  epilogue.finish();
}

/// A block's whole work.
template <GemmTraits S, GemmWgmmaConfig C, class P>
__device__ __forceinline__ void gemm_wgmma_block(const GemmWgmmaCall& call) {
  static_assert(valid(C) && C.block_n % (8 * P::kParts) == 0);
  static_assert(C.share != GemmShare::kB || C.block_n / P::kParts / C.cluster % 8 == 0,
                "a block's part of B is whole rows of the swizzle");
  extern __shared__ unsigned char raw[];
  const GemmRing<S, C> ring(raw);
  // Makes it uniform for the compiler: descriptors then stay in uniform registers.
  const int32_t group = __shfl_sync(0xffffffffu, static_cast<int32_t>(threadIdx.x) / 128, 0);
  if (threadIdx.x == 0) {
    tma_prefetch_map(call.a), tma_prefetch_map(call.b[0]), tma_prefetch_map(call.out[0]);
    ring.start();
  }
  if constexpr (C.cluster > 1) {
    cluster_sync();
  } else if (group == 0) {  // copies begin before the others have come
    __syncwarp();
    asm volatile("bar.arrive 0, %0;" ::"n"(C.threads()) : "memory");
  } else {
    asm volatile("bar.sync 0, %0;" ::"n"(C.threads()) : "memory");
  }
  wait_for_dependencies();
  launch_dependents();
  if (group == 0) {
    give_registers<C>();
    if (threadIdx.x == 0) produce<S, C, P::kParts, P::kFold>(call, ring);
    __syncwarp();
    if constexpr (C.share == GemmShare::kK) cluster_sync(), cluster_sync();
  } else if (C.normed() && group > C.warpgroups) {
    if constexpr (C.normed()) scale_stages<S, C, P::kGain>(call, ring);
  } else {
    get_registers<C>();
    consume<S, C, P>(call, ring, group - 1);
  }
  // Blocks of the cluster may write a block's barriers and tiles until all have ended.
  if constexpr (C.multicast()) cluster_sync();
}

/// With one multiplying warpgroup, each thread of the block may have 255 registers. With two, ptxas
/// gives 168 to each of 384 threads, as many as 40 + 2 · 232. (With 24 the copying thread spills.)
template <GemmTraits S, GemmWgmmaConfig C, class P>
__global__ void __launch_bounds__(C.threads(), 1)
    gemm_wgmma(const __grid_constant__ GemmWgmmaCall call) {
  gemm_wgmma_block<S, C, P>(call);
}

}  // namespace dlblas
