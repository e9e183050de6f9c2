// The tensor-core product for sm_80 and later: mma.sync over tiles that cp_async loads into a ring.
// In: a [M, K], b [K, N], f16 or bf16, each contiguous in either dimension, rows 16-byte aligned;
// an epilogue. With two parts both b are contiguous along K, and their columns alternate in tiles.
// Out: the epilogue's; with split_k > 1 partial sums, which gemm_mma_finish adds in order.
// Numerics: f32 sums in an order that does not depend on other blocks, carried every S.span terms.
//
//   ring of stages: [a tile | b tile] …          cp_async, stages - 1 tiles ahead
//   fragments of step k + 1 load                 while step k multiplies
//
// Flow: [launch], of ops/gemm/matmul/cuda/matmul_mma_cuda.cpp for one.
// Read next: device/mma_tile.cuh, epilogue.cuh.
#pragma once

#include "device/carried_sum.cuh"
#include "device/gemm/epilogue.cuh"
#include "device/mma_tile.cuh"
#include "device/pdl.cuh"

namespace dlblas {

template <GemmTraits S, GemmMmaConfig C>
struct MmaShape {
  using TileA = MmaTile<MmaOperand::kA, C.block_m, C.block_k, S.a_by_depth, S.a_whole, C.threads()>;
  using TileB = MmaTile<MmaOperand::kB, C.block_n, C.block_k, S.b_by_depth, S.b_whole, C.threads()>;
  static constexpr int kStageBytes = TileA::kBytes + TileB::kBytes;
  static constexpr int kRows = C.warp_m() / 16;            // 16 × 16 parts of the warp's share
  static constexpr int kColumns = (C.warp_n() + 15) / 16;  // the last may be half of one
  static constexpr int kEights = C.warp_n() / 8;
  static constexpr int kSteps = C.block_k / 16;
  static constexpr int kCopies = TileA::kCopies + TileB::kCopies;  // of one thread and tile
  static_assert(kSteps % 2 == 0, "fragments alternate between two sets of registers");

  struct Fragments {
    uint32_t a[kRows][4], b[kColumns][4];
  };
  using Sums = float[kRows][kEights][4];
  using Carry = CarriedSums<kRows * kEights * 4, C.threads()>;
  static_assert(S.span % C.block_k == 0);
};

/// This block's part of the problem.
struct MmaPlace {
  int64_t m, n;        // first row and column
  int32_t rows, cols;  // of the matrix, from there on
  int32_t depth_begin, depth;
};

/// Blocks walk the matrix in bands of group_m rows, columns in the outer loop: blocks that run at
/// the same time share few tiles of a and b, which stay in L2.
template <GemmMmaConfig C, int kParts>
__device__ __forceinline__ MmaPlace mma_place(const GemmCall& p) {
  const int64_t columns = product_columns<kParts>(p);
  const auto blocks_m = static_cast<uint32_t>((p.m + C.block_m - 1) / C.block_m);
  const auto blocks_n = static_cast<uint32_t>((columns + C.block_n - 1) / C.block_n);
  const uint32_t band = blockIdx.x / (C.group_m * blocks_n), first = band * C.group_m;
  const uint32_t height = blocks_m - first < C.group_m ? blocks_m - first : C.group_m;
  const uint32_t in_band = blockIdx.x - first * blocks_n;
  MmaPlace at;
  at.m = static_cast<int64_t>(first + in_band % height) * C.block_m;
  at.n = static_cast<int64_t>(in_band / height) * C.block_n;
  at.rows = static_cast<int32_t>(p.m - at.m < C.block_m ? p.m - at.m : C.block_m);
  at.cols = static_cast<int32_t>(columns - at.n < C.block_n ? columns - at.n : C.block_n);
  at.depth_begin = 0;
  at.depth = static_cast<int32_t>(p.k);
  if constexpr (C.split_k > 1) {
    const auto tiles = static_cast<int32_t>((p.k + C.block_k - 1) / C.block_k);
    const int32_t share = (tiles + C.split_k - 1) / C.split_k * C.block_k;
    at.depth_begin = static_cast<int32_t>(blockIdx.y) * share;
    const int32_t left = at.depth - at.depth_begin;
    at.depth = left < share ? left : share;  // may be negative: nothing to add
  }
  return at;
}

/// Copies one tile after the other into the ring. Every tile is one copy group, even when none is
/// left, so that waiting only counts groups.
template <GemmTraits S, GemmMmaConfig C, int kParts, typename Rows>
struct TileFetcher {
  using Shape = MmaShape<S, C>;
  TileSource a, b;
  int32_t rows, cols, depth_left;
  Rows source_rows;  // of a

  __device__ __forceinline__ TileFetcher(const GemmCall& p, const MmaPlace& at,
                                         const Rows& source_rows)
      : rows(at.rows), cols(at.cols), depth_left(at.depth), source_rows(source_rows) {
    const auto* pa = static_cast<const uint16_t*>(p.a) + at.depth_begin * p.a_col;
    if constexpr (Rows::kGathered) {
      a = Shape::TileA::source(pa, 0);
    } else {
      a = Shape::TileA::source(pa + at.m * p.a_row, 2 * (S.a_by_depth ? p.a_row : p.a_col));
    }
    const int64_t pitch = 2 * (S.b_by_depth ? p.b_col : p.b_row);
    if constexpr (kParts == 1) {
      b = Shape::TileB::source(first_of_b(p, at, 0), pitch);
    } else {
      static_assert(S.b_by_depth, "columns alternate: each is a row of the tile");
      b = Shape::TileB::source_of_pairs(first_of_b(p, at, 0), first_of_b(p, at, 1), pitch);
    }
  }

  __device__ static __forceinline__ const uint16_t* first_of_b(const GemmCall& p,
                                                               const MmaPlace& at, int part) {
    return static_cast<const uint16_t*>(p.b[part]) + at.depth_begin * p.b_row +
           at.n / kParts * p.b_col;
  }

  /// Issues copies `first` … `last` - 1 of the next tile; the tile's last copy closes the group.
  __device__ __forceinline__ void copy(uint32_t stage, int first, int last) {
    if (depth_left > 0) {
#pragma unroll
      for (int i = first; i < last; ++i) {
        if (i < Shape::TileA::kCopies) {
          Shape::TileA::copy(stage, a, i, rows, depth_left, source_rows);
        } else {
          Shape::TileB::copy(stage + Shape::TileA::kBytes, b, i - Shape::TileA::kCopies, cols,
                             depth_left);
        }
      }
    }
    if (last < Shape::kCopies) return;
    depth_left -= C.block_k;
    cp_async_commit();
  }
};

template <GemmTraits S, GemmMmaConfig C>
__device__ __forceinline__ void load_fragments(typename MmaShape<S, C>::Fragments& f,
                                               uint32_t stage, uint32_t a_lane, uint32_t b_lane,
                                               int step) {
  using Shape = MmaShape<S, C>;
#pragma unroll
  for (int i = 0; i < Shape::kRows; ++i) Shape::TileA::load(f.a[i], stage, a_lane, i, step);
#pragma unroll
  for (int j = 0; j < Shape::kColumns; ++j) {
    if (2 * j + 1 < Shape::kEights) {
      Shape::TileB::load(f.b[j], stage + Shape::TileA::kBytes, b_lane, j, step);
    } else {
      Shape::TileB::load_eight(f.b[j], stage + Shape::TileA::kBytes, b_lane, j, step);
    }
  }
}

template <GemmTraits S, GemmMmaConfig C>
__device__ __forceinline__ void multiply_fragments(typename MmaShape<S, C>::Sums& d,
                                                   const typename MmaShape<S, C>::Fragments& f) {
  using Shape = MmaShape<S, C>;
  constexpr bool kBf16 = S.type == DType::kBF16;
#pragma unroll
  for (int i = 0; i < Shape::kRows; ++i) {
#pragma unroll
    for (int j = 0; j < Shape::kEights; ++j) {
      const uint32_t* b = f.b[j / 2] + j % 2 * 2;
      mma_16x8x16<kBf16>(d[i][j], f.a[i], b[0], b[1]);
    }
  }
}

/// Accumulates over the block's depth. One barrier per tile: it ends all reads of the finished tile
/// (whose slot is filled next) and publishes the copies of the next one.
/// `after_span()` follows a span's multiplications. It comes after an inner loop of its own: as a
/// branch of the tile loop it would become predicated instructions in every tile, 1.2 × the time.
/// Gathered `rows` are those of the tile; the caller's barrier has published their table.
template <GemmTraits S, GemmMmaConfig C, int kParts, typename AfterSpan,
          typename Rows = RowsInOrder>
__device__ __forceinline__ void mma_mainloop(typename MmaShape<S, C>::Sums& d, uint32_t ring,
                                             const GemmCall& p, const MmaPlace& at,
                                             const AfterSpan& after_span,
                                             const Rows& rows = Rows()) {
  using Shape = MmaShape<S, C>;
  TileFetcher<S, C, kParts, Rows> fetcher(p, at, rows);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const uint32_t a_lane = Shape::TileA::lane_offset(warp / C.warps_n * C.warp_m());
  const uint32_t b_lane = Shape::TileB::lane_offset(warp % C.warps_n * C.warp_n());
#pragma unroll 1
  for (int s = 0; s < C.stages - 1; ++s) {
    fetcher.copy(ring + s * Shape::kStageBytes, 0, Shape::kCopies);
  }
  cp_async_wait<C.stages - 2>();
  __syncthreads();

  constexpr int kTurns = Shape::kSteps - 1;  // the copies of a tile, spread over the steps
  const uint32_t end = ring + C.stages * Shape::kStageBytes;
  uint32_t reading = ring, filling = end - Shape::kStageBytes;
  typename Shape::Fragments f[2];
  load_fragments<S, C>(f[0], reading, a_lane, b_lane, 0);
  const auto multiply_tile = [&] {
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      if (step == Shape::kSteps - 1) {
        cp_async_wait<C.stages - 2>();
        __syncthreads();
        reading = reading + Shape::kStageBytes == end ? ring : reading + Shape::kStageBytes;
      }
      load_fragments<S, C>(f[(step + 1) % 2], reading, a_lane, b_lane, (step + 1) % Shape::kSteps);
      if (step < kTurns) {
        fetcher.copy(filling, step * Shape::kCopies / kTurns, (step + 1) * Shape::kCopies / kTurns);
      }
      if (step == kTurns - 1) {
        filling = filling + Shape::kStageBytes == end ? ring : filling + Shape::kStageBytes;
      }
      multiply_fragments<S, C>(d, f[step % 2]);
    }
  };
  for (int32_t left = at.depth; left > 0;) {
    const int32_t stop = S.span > 0 && left > S.span ? left - S.span : 0;
    for (; left > stop; left -= C.block_k) multiply_tile();
    after_span();
  }
  cp_async_wait<0>();
  __syncthreads();  // the ring is free
}

/// Passes the warp's sums to the epilogue through shared memory: registers hold pairs of columns, a
/// store needs eight. All rows at once where the ring has room, since each turn's copy of the store
/// loop costs compile time; otherwise 16 at a time.
template <GemmTraits S, GemmMmaConfig C, typename Epilogue>
__device__ __forceinline__ void mma_store(const typename MmaShape<S, C>::Sums& d, float* shared,
                                          const GemmParams<Epilogue>& p, const MmaPlace& at) {
  using Shape = MmaShape<S, C>;
  constexpr int kPitch = C.pitch(), kEights = Shape::kEights;
  constexpr int kWarps = C.warps_m * C.warps_n;
  constexpr bool kFits = kWarps * C.warp_m() * kPitch * 4 <= C.stages * Shape::kStageBytes;
  constexpr int kTurn = kFits ? Shape::kRows : 1;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp / C.warps_n * C.warp_m(), warp_col = warp % C.warps_n * C.warp_n();
  float* const mine = shared + warp * kTurn * 16 * kPitch;
#pragma unroll
  for (int first = 0; first < Shape::kRows; first += kTurn) {
#pragma unroll
    for (int e = 0; e < kTurn * kEights; ++e) {
      const int i = e / kEights, j = e % kEights;
      const float(&sums)[4] = d[first + i][j];
      float* to = mine + (i * 16 + lane / 4) * kPitch + j * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(to) = make_float2(sums[0], sums[1]);
      *reinterpret_cast<float2*>(to + 8 * kPitch) = make_float2(sums[2], sums[3]);
    }
    __syncwarp();
#pragma unroll 1
    for (int e = lane; e < kTurn * 16 * kEights; e += 32) {
      const int row = warp_row + first * 16 + e / kEights, col = warp_col + e % kEights * 8;
      if (row >= at.rows || col >= at.cols) continue;
      const float* from = mine + e / kEights * kPitch + e % kEights * 8;
      if constexpr (C.split_k > 1) {
        store_partial<Epilogue::kParts>(p.gemm, blockIdx.y, at.m + row, at.n + col, from);
      } else {
        finish_columns<Epilogue, 8>(p, at.m + row, at.n + col, from);
      }
    }
    __syncwarp();
  }
}

/// Blocks per multiprocessor that ptxas plans for; 0: its own choice. Before sm_90 it chooses seven
/// of 32 × 64, and spills for them where an epilogue branches.
template <GemmMmaConfig C, typename Epilogue>
constexpr int mma_blocks() {
#if __CUDA_ARCH__ < 900
  if (Epilogue::kBranches && C.block_m == 32 && C.block_n == 64 && C.block_k == 128) return 6;
#endif
  return 0;
}

template <GemmTraits S, GemmMmaConfig C, typename Epilogue>
__global__ void __launch_bounds__(C.threads(), mma_blocks<C, Epilogue>())
    gemm_mma(const __grid_constant__ GemmParams<Epilogue> p) {
  extern __shared__ __align__(128) unsigned char shared[];
  wait_for_dependencies();
  launch_dependents();
  constexpr int kParts = Epilogue::kParts;
  const MmaPlace at = mma_place<C, kParts>(p.gemm);
  using Shape = MmaShape<S, C>;
  typename Shape::Sums d = {};
  if constexpr (S.span > 0) {
    typename Shape::Carry carried(shared + C.ring_bytes(), static_cast<int>(threadIdx.x));
    mma_mainloop<S, C, kParts>(d, shared_address(shared), p.gemm, at,
                               [&] { carried.add(&d[0][0][0]); });
    carried.finish(&d[0][0][0]);
  } else {
    mma_mainloop<S, C, kParts>(d, shared_address(shared), p.gemm, at, [] {});
  }
  mma_store<S, C, Epilogue>(d, reinterpret_cast<float*>(shared), p, at);
}

/// The epilogue of Σ partial, with the parts of K added in ascending order. Each thread takes eight
/// columns of a row.
template <GemmTraits S, GemmMmaConfig C, typename Epilogue>
__global__ void __launch_bounds__(kGemmFinishThreads)
    gemm_mma_finish(const __grid_constant__ GemmParams<Epilogue> p) {
  wait_for_dependencies();
  launch_dependents();
  constexpr int kParts = Epilogue::kParts;
  const int64_t eights = (product_columns<kParts>(p.gemm) + 7) / 8;
  const int64_t at = int64_t{blockIdx.x} * kGemmFinishThreads + threadIdx.x;
  if (at >= p.gemm.m * eights) return;
  const int64_t m = at / eights, n = at % eights * 8;
  float sum[8] = {};
#pragma unroll
  for (int part = 0; part < C.split_k; ++part) add_partial<kParts>(p.gemm, part, m, n, sum);
  finish_columns<Epilogue, 8>(p, m, n, sum);
}

}  // namespace dlblas
