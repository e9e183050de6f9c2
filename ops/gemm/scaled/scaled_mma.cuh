// The scaled products on tensor cores of sm_80 and later: codes become f16, which represents all of
// i8 and of e4m3, and mma.sync multiplies them. Any strides, any alignment, any sizes.
// In: codes, scales, a bias. Out: rows and columns of the result, one rounding.
// Numerics: f32 sums of 128 terms in a fixed order, exact for i8; then f32 multiply-adds with block
// factors, f32 sums, or i32 sums for i8. Every configuration gives the same bits.
//
//   registers ← global (half of 128 of K)   while   sums += shared (the previous half)
//   total += factor · sums                  after every second half
//
// Flow: [launch], of scaled_mma_cuda.cpp.  Read next: scaled_gpu_config.hpp, device/mma_tile.cuh.
#pragma once

#include "device/mma_tile.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"
#include "ops/gemm/scaled/scaled_gpu_config.hpp"

namespace dlblas::gemm::scaled {

/// The four codes of a 32-bit word as two words of two f16.
template <DType kType>
__device__ __forceinline__ void widen_codes(uint32_t codes, uint32_t& low, uint32_t& high) {
  if constexpr (kType == DType::kI8) {
    // 1024 + (code + 128) in f16 has code + 128 in its lowest bits.
    const uint32_t biased = codes ^ 0x80808080u;
    asm("{\n\t.reg .b32 h;\n\tmov.b32 h, 0x64806480;\n\t"
        "prmt.b32 %0, %2, 0x64646464, 0x4140;\n\tprmt.b32 %1, %2, 0x64646464, 0x4342;\n\t"
        "sub.rn.f16x2 %0, %0, h;\n\tsub.rn.f16x2 %1, %1, h;\n\t}"
        : "=&r"(low), "=&r"(high)
        : "r"(biased));
  } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    asm("{\n\t.reg .b16 l, h;\n\tmov.b32 {l, h}, %2;\n\t"
        "cvt.rn.f16x2.e4m3x2 %0, l;\n\tcvt.rn.f16x2.e4m3x2 %1, h;\n\t}"
        : "=r"(low), "=r"(high)
        : "r"(codes));
#else
    low = pack_pair<DType::kF16>(unpack_one<kType>(codes), unpack_one<kType>(codes >> 8));
    high = pack_pair<DType::kF16>(unpack_one<kType>(codes >> 16), unpack_one<kType>(codes >> 24));
#endif
  }
}

/// How a block reads kRows rows (of a, or columns of b) × 64 of K: a thread loads runs of 16 codes
/// of one row and keeps them in registers while the previous tile is multiplied.
template <DType kType, int kRows, bool kAlong, bool kVector>
struct ScaledLoader {
  static constexpr int kThreads = ScaledMmaConfig::kThreads, kRuns = kRows * 4;
  static constexpr int kCount = (kRuns + kThreads - 1) / kThreads;
  const uint8_t* base;
  int64_t row_stride, k_stride, rows_left;

  /// Neighbouring threads read neighbouring addresses.
  __device__ static __forceinline__ int row_of(int run) { return kAlong ? run / 4 : run % kRows; }
  __device__ static __forceinline__ int part_of(int run) { return kAlong ? run % 4 : run / kRows; }

  /// 16 codes from k on; zero past the ends of the matrix, where nothing is read.
  __device__ __forceinline__ uint4 load_run(int row, int64_t k, int64_t depth) const {
    uint32_t words[4] = {};
    if (row < rows_left && k < depth) {
      const uint8_t* from = base + row * row_stride + k * k_stride;
      if (kVector && k + 16 <= depth) return *reinterpret_cast<const uint4*>(from);
#pragma unroll
      for (int i = 0; i < 16; ++i)
        if (k + i < depth) words[i / 4] |= uint32_t{from[i * k_stride]} << (i % 4 * 8);
    }
    return {words[0], words[1], words[2], words[3]};
  }
  __device__ __forceinline__ void load(uint4 (&runs)[kCount], int64_t k, int64_t depth) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int run = static_cast<int>(threadIdx.x) + i * kThreads;
      if (kRuns % kThreads == 0 || run < kRuns)
        runs[i] = load_run(row_of(run), k + part_of(run) * 16, depth);
    }
  }
  /// In MmaTile's layout of rows of 64 f16.
  __device__ __forceinline__ void store(const uint4 (&runs)[kCount], unsigned char* tile) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int run = static_cast<int>(threadIdx.x) + i * kThreads;
      if (kRuns % kThreads != 0 && run >= kRuns) continue;
      const int row = row_of(run), chunk = part_of(run) * 2;
      uint4 first, second;
      widen_codes<kType>(runs[i].x, first.x, first.y);
      widen_codes<kType>(runs[i].y, first.z, first.w);
      widen_codes<kType>(runs[i].z, second.x, second.y);
      widen_codes<kType>(runs[i].w, second.z, second.w);
      unsigned char* const to = tile + row * 128;
      *reinterpret_cast<uint4*>(to + (chunk ^ (row & 7)) * 16) = first;
      *reinterpret_cast<uint4*>(to + ((chunk + 1) ^ (row & 7)) * 16) = second;
    }
  }
};

template <ScaledTraits S>
__device__ __forceinline__ float scale_at(const void* scales, int64_t at) {
  return float_from_bits(load_vec < DType::kF32, 1, S.aligned ? 4 : 1 > (scales, at).words[0]);
}

/// The type that accumulates the sums of groups.
template <bool kIntegers>
struct ScaledTotal {
  using Type = float;
};
template <>
struct ScaledTotal<true> {
  using Type = int32_t;
};

/// A warp's sums and their place in the result.
template <ScaledTraits S, ScaledMmaConfig C>
class ScaledSums {
 public:
  static constexpr int kRows = C.warp_m() / 16, kEights = C.warp_n() / 8;
  using Total = typename ScaledTotal<S.integers>::Type;
  using TileA = MmaTile<MmaOperand::kA, C.block_m, C.kDepth, true, true, C.kThreads>;
  using TileB = MmaTile<MmaOperand::kB, C.kColumns, C.kDepth, true, true, C.kThreads>;
  static_assert(TileB::kRowBytes == 128 && kEights % 2 == 0);

  __device__ __forceinline__ ScaledSums(const ScaledParams& p, int64_t m0, int64_t n0)
      : p_(p), n0_(n0) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int row = warp / C.warps_n() * C.warp_m(), column = warp % C.warps_n() * C.warp_n();
    a_lane_ = TileA::lane_offset(row), b_lane_ = TileB::lane_offset(column);
    m_ = m0 + row + lane / 4, n_ = n0 + column + lane % 4 * 2;
  }

  __device__ __forceinline__ void multiply(uint32_t a, uint32_t b) {
#pragma unroll
    for (int step = 0; step < C.kDepth / 16; ++step) {
      uint32_t fa[kRows][4], fb[kEights / 2][4];
#pragma unroll
      for (int i = 0; i < kRows; ++i) TileA::load(fa[i], a, a_lane_, i, step);
#pragma unroll
      for (int j = 0; j < kEights / 2; ++j) TileB::load(fb[j], b, b_lane_, j, step);
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < kEights; ++j)
          mma_16x8x16<false>(part_[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
    }
  }

  /// After group g of K.
  __device__ __forceinline__ void promote(int64_t g) {
    float column = 1;
    if constexpr (S.blocks)
      column = scale_at<S>(p_.b_scale, g * p_.b_scale_group + n0_ / kScaleGroup * p_.b_scale_col);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float factor = 1;
        if constexpr (S.blocks)
          factor = row_of(i, h) < p_.m
                       ? column * scale_at<S>(p_.a_scale,
                                              row_of(i, h) * p_.a_scale_row + g * p_.a_scale_group)
                       : 0;
#pragma unroll
        for (int e = 0; e < 2 * kEights; ++e) {
          float& part = part_[i][e / 2][h * 2 + e % 2];
          Total& total = total_[i][e / 2][h * 2 + e % 2];
          if constexpr (S.integers)
            total += static_cast<int32_t>(part);
          else if constexpr (S.blocks)
            total = fmaf(factor, part, total);
          else
            total += part;
          part = 0;
        }
      }
  }

  __device__ __forceinline__ void store() const {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (row_of(i, h) >= p_.m) continue;
        float row = 1;
        if constexpr (!S.blocks) row = scale_at<S>(p_.a_scale, row_of(i, h) * p_.a_scale_row);
#pragma unroll
        for (int j = 0; j < kEights; ++j) {
          const int64_t n = n_ + j * 8;
          if (n >= p_.n) continue;
          const float first = value(i, j, h, 0, row, n);
          const bool two = n + 1 < p_.n;
          const float second = two ? value(i, j, h, 1, row, n + 1) : 0;
          const int64_t at = row_of(i, h) * p_.out_row + n * p_.out_col;
          constexpr int kAlign = S.aligned ? size_of(S.out) : 1;
          if constexpr (S.out_pairs) {
            if (two) {
              Vec<S.out, 2> v;
              v.pack({first, second});
              store_vec<S.out, 2, 2 * size_of(S.out)>(p_.out, at, v);
              continue;
            }
          }
          Vec<S.out, 1> v;
          v.pack({first});
          store_vec<S.out, 1, kAlign>(p_.out, at, v);
          if (!two) continue;
          v.pack({second});
          store_vec<S.out, 1, kAlign>(p_.out, at + p_.out_col, v);
        }
      }
  }

 private:
  const ScaledParams& p_;
  int64_t n0_, m_, n_;
  uint32_t a_lane_, b_lane_;
  float part_[kRows][kEights][4] = {};
  Total total_[kRows][kEights][4] = {};

  __device__ __forceinline__ int64_t row_of(int i, int h) const { return m_ + i * 16 + h * 8; }
  __device__ __forceinline__ float value(int i, int j, int h, int e, float row, int64_t n) const {
    float y = static_cast<float>(total_[i][j][h * 2 + e]);
    if constexpr (!S.blocks) y *= row * scale_at<S>(p_.b_scale, n * p_.b_scale_col);
    if constexpr (S.bias != DType::kAbsent) {
      float bias[1];
      load_vec<S.bias, 1, S.aligned ? size_of(S.bias) : 1>(p_.bias, n * p_.bias_col).unpack(bias);
      y += bias[0];
    }
    return y;
  }
};

/// Block blockIdx.x of a product.
template <ScaledTraits S, ScaledMmaConfig C>
__device__ __forceinline__ void scaled_mma_block(const ScaledParams& p) {
  extern __shared__ __align__(128) unsigned char shared[];
  const auto blocks_n = static_cast<uint32_t>((p.n + C.kColumns - 1) / C.kColumns);
  const int64_t m0 = int64_t{blockIdx.x / blocks_n} * C.block_m;
  const int64_t n0 = int64_t{blockIdx.x % blocks_n} * C.kColumns;
  using A = ScaledLoader<S.type, C.block_m, S.a_along, S.a_vector>;
  using B = ScaledLoader<S.type, C.kColumns, S.b_along, S.b_vector>;
  const A a{static_cast<const uint8_t*>(p.a) + m0 * p.a_row, p.a_row, p.a_col, p.m - m0};
  const B b{static_cast<const uint8_t*>(p.b) + n0 * p.b_col, p.b_col, p.b_row, p.n - n0};
  uint4 next_a[A::kCount], next_b[B::kCount];
  ScaledSums<S, C> sums(p, m0, n0);
  a.load(next_a, 0, p.k);
  b.load(next_b, 0, p.k);
  unsigned char *buffer = shared, *other = shared + C.buffer_bytes();
#pragma unroll 1
  for (int64_t k = 0; k < p.k; k += C.kDepth) {
    unsigned char* const tile_b = buffer + C.block_m * C.kDepth * 2;
    a.store(next_a, buffer);
    b.store(next_b, tile_b);
    __syncthreads();  // one per tile: the buffer before this one is no longer read
    a.load(next_a, k + C.kDepth, p.k);
    b.load(next_b, k + C.kDepth, p.k);
    sums.multiply(shared_address(buffer), shared_address(tile_b));
    const int64_t after = k + C.kDepth;
    if (after % kScaleGroup == 0 || after >= p.k) sums.promote(k / kScaleGroup);
    unsigned char* const full = buffer;
    buffer = other, other = full;
  }
  sums.store();
}

template <ScaledTraits S, ScaledMmaConfig C>
__global__ void __launch_bounds__(C.kThreads) scaled_mma(const __grid_constant__ ScaledParams p) {
  scaled_mma_block<S, C>(p);
}

}  // namespace dlblas::gemm::scaled
