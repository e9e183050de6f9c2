// Block-scaled grouped products of f8, sm_80 and later, any layout: each block computes one tile of
// one group. Codes become f16, which represents all of them; mma.sync multiplies 128 of K, and the
// sums are multiplied by their factor and accumulated in f32.
// In: codes, scales, sizes of groups. Out: the groups' rows only, rounded once.
//
//   registers ← global (128 of K)   while   sums of the previous 128, from shared memory
//
// A thread's 32-bit word holds four neighbours of K: a and weight permute K in the same way.
// Sums over a group's rows (kDepth): K are the rows of all groups, 128 at a time from the first of
// all, so the first and the last 128 of a group may be cut short; every column has its own scales.
// Flow: call > validate > select > compile > [launch].  Read next: grouped_block_config.hpp,
// device/gemm/groups.cuh.
#pragma once

#include "device/gemm/epilogue.cuh"
#include "device/gemm/groups.cuh"
#include "device/mma.cuh"
#include "ops/gemm/grouped_block/grouped_block_config.hpp"

namespace dlblas::gemm {

/// The four codes of a 32-bit word as two words of two f16.
template <DType kType>
__device__ __forceinline__ void codes_to_f16(uint32_t codes, uint32_t& low, uint32_t& high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  if constexpr (kType == DType::kF8E4M3)
    asm("{\n\t.reg .b16 l, h;\n\tmov.b32 {l, h}, %2;\n\t"
        "cvt.rn.f16x2.e4m3x2 %0, l;\n\tcvt.rn.f16x2.e4m3x2 %1, h;\n\t}"
        : "=r"(low), "=r"(high)
        : "r"(codes));
  else
    asm("{\n\t.reg .b16 l, h;\n\tmov.b32 {l, h}, %2;\n\t"
        "cvt.rn.f16x2.e5m2x2 %0, l;\n\tcvt.rn.f16x2.e5m2x2 %1, h;\n\t}"
        : "=r"(low), "=r"(high)
        : "r"(codes));
#else
  // Each code above eight zero bits: e5m2 then is f16; e4m3 has one exponent bit less, and a bias
  // that is lower by 8.
  const uint32_t words[] = {__byte_perm(codes, 0, 0x1404), __byte_perm(codes, 0, 0x3424)};
  uint32_t made[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    made[i] = words[i];
    if constexpr (kType == DType::kF8E4M3) {
      const uint32_t magnitude = words[i] & 0x7f007f00u;
      const uint32_t nan = ((magnitude + 0x01000100u) & 0x80008000u) >> 15;
      asm("mul.rn.f16x2 %0, %1, %2;"
          : "=r"(made[i])
          : "r"((words[i] & 0x80008000u) | magnitude >> 1), "r"(0x5c005c00u));  // 256
      made[i] |= nan * 0x7fffu;
    }
  }
  low = made[0], high = made[1];
#endif
}

/// 16 codes of any stride, of which `left` exist. Not inlined: 16 loads at a dozen call sites would
/// take seconds to compile.
__device__ __noinline__ uint4 gather_codes(const uint8_t* from, int64_t stride, int64_t left) {
  uint32_t words[4] = {};
#pragma unroll
  for (int j = 0; j < 16; ++j)
    if (j < left) words[j / 4] |= uint32_t{from[j * stride]} << (j % 4 * 8);
  return {words[0], words[1], words[2], words[3]};
}

/// Clears the first `count` codes of a run, if any.
__device__ __forceinline__ void clear_first_codes(uint4& run, int64_t count) {
  uint32_t* const words[] = {&run.x, &run.y, &run.z, &run.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t left = count - i * 4, here = left < 0 ? 0 : left > 4 ? 4 : left;
    *words[i] &= static_cast<uint32_t>(~uint64_t{0} << here * 8);
  }
}

/// kRows rows × 128 of K, in runs of 16 codes: from global memory to registers to shared memory.
/// kDepth: terms before `begin` count as 0, and the rows of neighbouring threads' runs are adjacent
/// unless runs are.
template <int kRows, bool kWhole, bool kDepth>
struct BlockTileLoader {
  static constexpr int kPitch = 144;  // bytes from row to row: lanes meet all banks
  static constexpr int kRuns = kRows * 8, kCount = kRuns / kGroupedBlockThreads;
  static_assert(kRuns % kGroupedBlockThreads == 0);
  const uint8_t* base;
  int64_t row_stride, k_stride, rows_left, begin;

  __device__ static __forceinline__ int row_of(int run) {
    return kDepth && !kWhole ? run % kRows : run / 8;
  }
  __device__ static __forceinline__ int place_of(int run) {
    return kDepth && !kWhole ? run / kRows : run % 8;
  }
  __device__ __forceinline__ void load(uint4 (&runs)[kCount], int64_t k0, int64_t depth) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int run = static_cast<int>(threadIdx.x) + i * kGroupedBlockThreads;
      const int64_t k = k0 + place_of(run) * 16;
      runs[i] = {0, 0, 0, 0};
      if (row_of(run) >= rows_left || k >= depth) continue;
      const uint8_t* const from = base + row_of(run) * row_stride + k * k_stride;
      if (kWhole && (!kDepth || k + 16 <= depth))
        runs[i] = *reinterpret_cast<const uint4*>(from);
      else
        runs[i] = gather_codes(from, k_stride, depth - k);
      if (kDepth && k < begin) clear_first_codes(runs[i], begin - k);
    }
  }
  __device__ __forceinline__ void store(const uint4 (&runs)[kCount], unsigned char* tile) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int run = static_cast<int>(threadIdx.x) + i * kGroupedBlockThreads;
      *reinterpret_cast<uint4*>(tile + row_of(run) * kPitch + place_of(run) * 16) = runs[i];
    }
  }
};

template <GroupedBlockTraits S>
__device__ __forceinline__ float block_scale(const void* scales, int64_t at) {
  constexpr int kAlign = S.aligned_scales ? 4 : 1;
  return float_from_bits(load_vec<DType::kF32, 1, kAlign>(scales, at).words[0]);
}

/// The tile of block `block`: find_tile, or for kDepth, where all groups have `rows` tiles of rows,
/// a division.
template <GroupedBlockTraits S, int kBlock>
__device__ __forceinline__ GroupTile tile_of(const GroupedBlockParams& p, uint32_t columns) {
  if constexpr (S.groups.kind != GroupKind::kDepth) {
    return find_tile<S.groups, kBlock>(p.groups, blockIdx.x, columns);
  } else {
    const auto rows = static_cast<uint32_t>((p.gemm.m + kBlock - 1) / kBlock);
    const uint32_t group = blockIdx.x / (rows * columns);
    return {group_range<S.groups>(p.groups, static_cast<int32_t>(group)),
            blockIdx.x - group * rows * columns, rows};
  }
}

template <GroupedBlockTraits S, GroupedBlockConfig T>
__global__ void __launch_bounds__(kGroupedBlockThreads)
    grouped_block(const __grid_constant__ GroupedBlockParams p) {
  constexpr GroupedBlockTile C = kGroupedBlockTiles[T.tile];
  constexpr int kRows = C.block_m / C.warps_m / 16, kEights = C.block_n / C.warps_n / 8;
  constexpr bool kDepth = S.groups.kind == GroupKind::kDepth;
  using LoadA = BlockTileLoader<C.block_m, S.whole, kDepth>;
  using LoadB = BlockTileLoader<C.block_n, S.whole, kDepth>;
  static_assert(C.warps_m * C.warps_n * 32 == kGroupedBlockThreads && 128 % C.block_n == 0);
  __shared__ __align__(16) unsigned char a_tile[C.block_m * LoadA::kPitch];
  __shared__ __align__(16) unsigned char b_tile[C.block_n * LoadB::kPitch];

  // Scalars only: a copy of p.gemm that enter_group moves keeps p.gemm's values (NVRTC 13).
  constexpr uint32_t kBand = 8;
  const auto columns = static_cast<uint32_t>((p.gemm.n + C.block_n - 1) / C.block_n);
  const GroupTile at = tile_of<S, C.block_m>(p, columns);
  if (at.range.group < 0) return;
  const uint32_t in_band = kBand * columns, first = at.place / in_band * kBand;
  const uint32_t rest = at.place % in_band, left = at.rows - first;
  const uint32_t height = left < kBand ? left : kBand;
  const int64_t m0 = static_cast<int64_t>(first + rest % height) * C.block_m,
                n0 = static_cast<int64_t>(rest / height) * C.block_n;
  const int64_t group = at.range.group, n_all = p.gemm.n;
  const int64_t rows = kDepth ? p.gemm.m : at.range.count;
  const int64_t first_row = kDepth ? 0 : at.range.begin, row_in_a = first_row + m0;
  // Terms [begin, depth); none for an empty group.
  const int64_t begin = kDepth ? at.range.begin : 0;
  const int64_t depth = !kDepth ? p.gemm.k : at.range.count > 0 ? begin + at.range.count : 0;
  const LoadA a = {
      static_cast<const uint8_t*>(p.gemm.a) + group * p.groups.a_group + row_in_a * p.gemm.a_row,
      p.gemm.a_row, p.gemm.a_col, rows - m0, begin};
  const LoadB b = {
      static_cast<const uint8_t*>(p.gemm.b[0]) + group * p.groups.b_group + n0 * p.gemm.b_col,
      p.gemm.b_col, p.gemm.b_row, n_all - n0, begin};
  const GemmOut out = {
      static_cast<char*>(p.epilogue.out.data) +
          (group * p.groups.out_group + first_row * p.epilogue.out.row) * size_of(S.out.type),
      p.epilogue.out.row, p.epilogue.out.col};

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row0 = warp / C.warps_n * (C.block_m / C.warps_m) + lane / 4;  // of this lane's first
  const int col0 = warp % C.warps_n * (C.block_n / C.warps_n);
  const int64_t first_scale = group * p.a_scale_group + row_in_a * p.a_scale_row;
  const int64_t weight_scale =
      group * p.weight_scale_group + (kDepth ? n0 : n0 / 128) * p.weight_scale_row;

  uint4 next_a[LoadA::kCount], next_b[LoadB::kCount];
  const int64_t first_part = begin / 128;
  a.load(next_a, first_part * 128, depth);
  b.load(next_b, first_part * 128, depth);
  float total[kRows][kEights][4] = {};
  for (int64_t part = first_part; part * 128 < depth; ++part) {
    __syncthreads();  // the tiles before these have been read
    a.store(next_a, a_tile);
    b.store(next_b, b_tile);
    __syncthreads();
    a.load(next_a, part * 128 + 128, depth);
    b.load(next_b, part * 128 + 128, depth);
    float of_weight = 1, of_columns[kEights][2];
    if constexpr (!kDepth)
      of_weight = block_scale<S>(p.weight_scale, weight_scale + part * p.weight_scale_col);
#pragma unroll
    for (int j = 0; kDepth && j < kEights; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = col0 + j * 8 + lane % 4 * 2 + e;
        of_columns[j][e] = 0;
        if (n0 + column < n_all)
          of_columns[j][e] =
              block_scale<S>(p.weight_scale, weight_scale + column * p.weight_scale_row +
                                                 part * p.weight_scale_col);
      }
    float factors[kRows][2];
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = row0 + i * 16 + h * 8;
        factors[i][h] = 0;
        if (m0 + row < rows)
          factors[i][h] = of_weight * block_scale<S>(p.a_scale, first_scale + row * p.a_scale_row +
                                                                    part * p.a_scale_col);
      }
    float sums[kRows][kEights][4] = {};
#pragma unroll
    for (int step = 0; step < 8; ++step) {
      uint32_t wa[kRows][4];
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const unsigned char* const from =
              a_tile + (row0 + i * 16 + h * 8) * LoadA::kPitch + step * 16 + lane % 4 * 4;
          codes_to_f16<S.type>(*reinterpret_cast<const uint32_t*>(from), wa[i][h], wa[i][h + 2]);
        }
#pragma unroll
      for (int j = 0; j < kEights; ++j) {
        uint32_t low, high;
        const unsigned char* const from =
            b_tile + (col0 + j * 8 + lane / 4) * LoadB::kPitch + step * 16 + lane % 4 * 4;
        codes_to_f16<S.type>(*reinterpret_cast<const uint32_t*>(from), low, high);
#pragma unroll
        for (int i = 0; i < kRows; ++i) mma_16x8x16<false>(sums[i][j], wa[i], low, high);
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kEights; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float factor =
              kDepth ? factors[i][e / 2] * of_columns[j][e % 2] : factors[i][e / 2];
          total[i][j][e] = fmaf(factor, sums[i][j][e], total[i][j][e]);
        }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < kEights; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int64_t m = m0 + row0 + i * 16 + h * 8, n = n0 + col0 + j * 8 + lane % 4 * 2;
        if (m < rows && n < n_all)
          store_values<S.out, 2>(out, GemmAt{m, n, n_all},
                                 [&](int c) { return total[i][j][h * 2 + c]; });
      }
}

}  // namespace dlblas::gemm
