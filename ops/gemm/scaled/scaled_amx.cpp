// The products of codes compiled for AMX: i8 with sums in i32, f8 as bf16 with sums in f32. Row and
// column scales are applied at the end. With block scales, tiles sum 128 of K at a time, and
// multiply-adds accumulate those sums with their scales.
// Everything but the tables below has internal linkage: see cpu/simd.hpp for why. Read next:
// cpu/gemm/codes.hpp, scaled_finish.hpp, scaled_tiles.cpp.
#include "cpu/gemm/codes.hpp"
#include "ops/gemm/scaled/scaled_finish.hpp"
#include "ops/gemm/scaled/scaled_tiles_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::avx512 {
namespace {

using gemm::scaled::kGroup;
using gemm::scaled::TilesCall;

/// Transposes `from`, `height` rows of `width` floats, into `to`; both are whole vectors.
DLBLAS_INLINE void turn_tile(const float* from, int64_t height, int64_t width, float* to) {
  for (int64_t i = 0; i < height; i += kWidth) {
    for (int64_t j = 0; j < width; j += kWidth) {
      Vec v[kWidth];
      DLBLAS_UNROLL
      for (int x = 0; x < kWidth; ++x) v[x] = _mm512_loadu_ps(from + (i + x) * width + j);
      transpose(v);
      DLBLAS_UNROLL
      for (int x = 0; x < kWidth; ++x) _mm512_storeu_ps(to + (j + x) * height + i, v[x]);
    }
  }
}

/// 16 scaled sums of i8 as f32. The sums of one span are i32; those of several are pairs of floats,
/// the second in `low`.
DLBLAS_INLINE Vec scale_integers(Vec factor, const float* sums, const float* low) {
  __m512d scaled[2];
  DLBLAS_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float* const from = sums + half * kWidth / 2;
    __m512d sum = _mm512_cvtepi32_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    if (low)
      sum = _mm512_add_pd(_mm512_cvtps_pd(_mm256_loadu_ps(from)),
                          _mm512_cvtps_pd(_mm256_loadu_ps(low + half * kWidth / 2)));
    const __m256 of_half =
        half ? _mm512_extractf32x8_ps(factor, 1) : _mm512_castps512_ps256(factor);
    scaled[half] = _mm512_mul_pd(_mm512_cvtps_pd(of_half), sum);
  }
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(scaled[0])),
                            _mm512_cvtpd_ps(scaled[1]), 1);
}

/// Stores the sums of a tile. `integers`: they are i32, or pairs of floats where K has several
/// spans.
DLBLAS_ONCE void store_sums(const TilesCall& call, const GemmBlock& of, GemmTile tile,
                            const float* sums, bool integers) {
  const ScaledJob& p = call.job;
  alignas(64) float turned[2][I8Core::kPlane];
  const bool spans = integers && p.k > gemm::scaled::kI8Tiles.span;
  const float* planes[2] = {sums, spans ? sums + I8Core::kPlane : nullptr};
  for (int i = 0; call.turned && i < 2 && planes[i]; ++i) {
    turn_tile(planes[i], tile.m, tile.n, turned[i]);
    planes[i] = turned[i];
  }
  const int64_t i0 = call.turned ? of.j0 : of.i0, i1 = call.turned ? of.j1 : of.i1;
  const int64_t j0 = call.turned ? of.i0 : of.j0, j1 = call.turned ? of.i1 : of.j1;
  const int64_t pitch = call.turned ? tile.m : tile.n;
  const int64_t n = j1 - j0;
  alignas(64) float scales[kStrip] = {};
  if (!p.blocks) load_scales(p, j0, n, scales);
  const GemmMatrix bias = gemm_matrix(p.bias);
  for (int64_t i = i0; i < i1; ++i) {
    const float* const from = planes[0] + (i - i0) * pitch;
    const float* const low = spans ? planes[1] + (i - i0) * pitch : nullptr;
    const Vec scale = broadcast(p.blocks ? 1.0f : scale_at(p.a_scale, i, 0));
    store_values(
        gemm_matrix(p.out), i, j0, n, [&](int64_t c, int64_t lanes) __attribute__((always_inline)) {
          const Vec factor = mul(scale, load<DType::kF32>(scales + c));
          Vec x = load<DType::kF32>(from + c);
          if (integers)
            x = scale_integers(factor, from + c, low ? low + c : nullptr);
          else if (!p.blocks)
            x = mul(factor, x);
          return p.bias.data ? add(x, load_columns(bias, 0, j0 + c, lanes)) : x;
        });
  }
}

template <bool kIntegers>
struct TilesEpilogue {
  using Params = TilesCall;
  static constexpr int kParts = 1;

  static void store_tile(const TilesCall& call, const GemmBlock& of, GemmTile tile,
                         const float* sums) {
    store_sums(call, of, tile, sums, kIntegers);
  }
};

template <bool kIntegers>
DLBLAS_INLINE Vec load_sums(const float* from) {
  const Vec v = load<DType::kF32>(from);
  return kIntegers ? _mm512_cvtepi32_ps(_mm512_castps_si512(v)) : v;
}

/// Adds a tile's sums over one group of K, scaled: out = before + scales · sums, where `before` is
/// 0 if there is none.
template <bool kIntegers>
DLBLAS_OUTLINE void promote(const TilesCall& call, int64_t group, GemmTile tile, const float* sums,
                            const TileArgs& t, bool first) {
  const float b_scale = scale_at(call.job.b_scale, group, (call.turned ? t.i : t.j) / kGroup);
  const float* const a_scales = call.a_scales + group * call.pitch + (call.turned ? t.j : t.i);
  const float* before = first ? t.runs : t.out;
  const int64_t before_row = first ? t.runs_row : t.out_row;
  for (int64_t c = 0; c < tile.n; c += kWidth) {
    const Vec columns =
        mul(broadcast(b_scale), load<DType::kF32>(a_scales + (call.turned ? c : 0)));
    for (int64_t r = 0; r < tile.m; ++r) {
      const Vec factor = call.turned ? columns : broadcast(a_scales[r] * b_scale);
      const Vec sum = load_sums<kIntegers>(sums + r * tile.n + c);
      const Vec total = before ? load<DType::kF32>(before + r * before_row + c) : zero();
      store<DType::kF32>(t.out + r * t.out_row + c, fma(factor, sum, total));
    }
  }
}

/// Accumulates the scaled sums of groups in f32.
template <typename Terms>
struct BlockCore : PairCore<Terms> {
  static constexpr int kStep = 256;

  static void run(const BlockWork& w, bool in_place, TileArgs& t) {
    alignas(64) float sums[kMaxTileFloats];
    const auto& call = *static_cast<const TilesCall*>(w.p.params);
    if (t.depth == 0) {
      for (int64_t r = 0; r < w.tile.m; ++r)
        for (int64_t c = 0; c < w.tile.n; ++c) t.out[r * t.out_row + c] = 0;
      return;
    }
    TileArgs one = t;
    one.runs = nullptr, one.out = sums, one.out_row = w.tile.n;
    constexpr int64_t kFloats = kGroup / Terms::kGroup;  // of a group's packed row or column
    for (int64_t k = 0; k < t.depth; k += kGroup) {
      one.depth = smaller(kGroup, t.depth - k);
      PairCore<Terms>::run(w, in_place, one);
      promote<Terms::kIntegers>(call, (w.k0 + k) / kGroup, w.tile, sums, t, k == 0);
      one.a += in_place ? kFloats : kFloats * w.tile.m;
      one.b += kFloats * w.tile.n;
    }
  }
};

constexpr GemmBlocks kI8 = blocks_of_core<I8Core>();
constexpr GemmBlocks kE4m3 = blocks_of_core<PairCore<F8Terms<DType::kF8E4M3>>>();
constexpr GemmBlocks kI8Block = blocks_of_core<BlockCore<I8Terms>>();
constexpr GemmBlocks kE4m3Block = blocks_of_core<BlockCore<F8Terms<DType::kF8E4M3>>>();
constexpr GemmBlocks kE5m2Block = blocks_of_core<BlockCore<F8Terms<DType::kF8E5M2>>>();
constexpr GemmEpilogue kIntegers = epilogue_code<TilesEpilogue<true>>();
constexpr GemmEpilogue kFloats = epilogue_code<TilesEpilogue<false>>();

}  // namespace

constinit const GemmCode kI8Amx = {&kI8, nullptr, kIntegers};
constinit const GemmCode kE4m3Amx = {&kE4m3, nullptr, kFloats};
constinit const GemmCode kI8BlockAmx = {&kI8Block, nullptr, kFloats};
constinit const GemmCode kE4m3BlockAmx = {&kE4m3Block, nullptr, kFloats};
constinit const GemmCode kE5m2BlockAmx = {&kE5m2Block, nullptr, kFloats};

}  // namespace dlblas::avx512
// NOLINTEND(google-build-namespaces)
