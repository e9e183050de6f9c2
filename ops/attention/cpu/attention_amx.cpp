// Attention of bf16 by AMX tiles: 32 query rows against blocks of keys.
// Out: dlblas::avx512::attention_tiles. Numerics: q·k and P·v as cpu/gemm/pairs.hpp says (products
// exact, sums f32, denormal bf16 zero); softmax in f32, in powers of two; P is summed in f32 and
// rounded to bf16 for the product with v. Flow: [compile] picks the code.  Read next:
// attention_tiles.hpp.
#include "ops/attention/cpu/attention_tiles.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"  // what matrix products alone call
#include "cpu/gemm/pairs.hpp"
#include "cpu/lines.hpp"
#pragma GCC diagnostic pop

namespace dlblas::avx512 {
namespace {

using attention::kTileBlock;
using attention::kTileMultiple;
using attention::kTilePitch;
using attention::kTileQueries;
using attention::tile_padded;
using attention::tile_panel;
using attention::TileBlock;
using attention::TileSource;

constexpr float kLog2E = 1.44269504f;
constexpr DType kBf16 = DType::kBF16;

constexpr int kChunk = Bf16Terms::kTerms;
static_assert(kTileMultiple == kChunk && kTileMultiple == PairCore<Bf16Terms>::kPad);

void pack_query(const void* from, int64_t step, int64_t width, void* to) {
  const auto* const in = static_cast<const uint16_t*>(from);
  auto* const out = static_cast<uint16_t*>(to);
  for (int64_t i = 0; i < width; i += kChunk) {
    if (step == 1) {
      _mm512_storeu_si512(out + i, Bf16Terms::load(in + i, width - i));
      continue;
    }
    for (int64_t j = 0; j < kChunk; ++j) out[i + j] = i + j < width ? in[(i + j) * step] : 0;
  }
}

/// Prefetches rows [first, end); does nothing unless their elements are contiguous.
DLBLAS_INLINE void fetch_rows(const TileSource& s, int64_t first, int64_t end, int64_t width) {
  if (s.column != 1) return;
  for (int64_t j = first; j < end; ++j)
    for (int64_t c = 0; c < width; c += kChunk)
      prefetch(static_cast<const uint16_t*>(s.data) + j * s.row + c);
}

/// Packs one panel of 32 keys while the next is prefetched.
void pack_keys(const TileSource& from, int64_t count, int64_t width, float* to) {
  const auto* const rows = static_cast<const uint16_t*>(from.data);
  for (int64_t j = 0; j < count; j += kTileMultiple) {
    fetch_rows(from, j + kTileMultiple, smaller(count, j + 2 * kTileMultiple), width);
    pack_chunks<Bf16Terms>({rows + j * from.row, from.row, from.column},
                           smaller(count - j, kTileMultiple), width, kTileMultiple, true,
                           to + j / kTileMultiple * tile_panel(width));
  }
}

/// As pack_chunks of columns: packs 32 rows while the next 32 are prefetched.
void pack_columns(const TileSource& from, int64_t count, int64_t width, float* to) {
  const PackSource s{from.data, from.column, from.row};
  const auto* const data = static_cast<const uint16_t*>(from.data);
  for (int64_t j = 0; j < count; j += kChunk) {
    fetch_rows(from, j + kChunk, smaller(count, j + 2 * kChunk), width);
    for (int64_t c = 0; c < width; c += kWidth) {
      Chunk pairs[kWidth];
      load_block<Bf16Terms>(s, data + j * s.depth + c * s.lane, width - c, count - j, true, kWidth,
                            pairs);
      float* const panel = to + c / kTileMultiple * tile_panel(count) + c % kTileMultiple;
      for (int i = 0; i < kWidth; ++i)
        _mm512_storeu_si512(panel + (j / 2 + i) * kTileMultiple, pairs[i]);
    }
    // Zero the other half of a half-filled last panel.
    const int64_t rest = width % kTileMultiple;
    if (rest == 0 || rest > kWidth) continue;
    float* const panel = to + width / kTileMultiple * tile_panel(count) + kWidth;
    for (int i = 0; i < kWidth; ++i)
      _mm512_storeu_si512(panel + (j / 2 + i) * kTileMultiple, _mm512_setzero_si512());
  }
}

DLBLAS_INLINE __mmask32 not_finite(__m512i values) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  return _mm512_cmpeq_epi16_mask(_mm512_and_si512(values, exponent), exponent);
}

int64_t pack_values(const TileSource& from, int64_t count, int64_t width, float* to, int32_t* wild,
                    float* wild_rows) {
  pack_columns(from, count, width, to);
  const int64_t panels = tile_padded(width) / kTileMultiple, size = tile_panel(count);
  const int64_t used = kTileMultiple * tile_padded(count) / 2;
  __mmask32 found = 0;
  for (int64_t p = 0; p < panels; ++p)
    for (int64_t i = 0; i < used; i += kWidth)
      found |= not_finite(_mm512_loadu_si512(to + p * size + i));
  if (found == 0) return 0;
  for (int64_t p = 0; p < panels; ++p)
    for (int64_t i = 0; i < used; i += kWidth) {
      const __m512i values = _mm512_loadu_si512(to + p * size + i);
      _mm512_mask_storeu_epi16(to + p * size + i, not_finite(values), _mm512_setzero_si512());
    }
  const auto* const values = static_cast<const uint16_t*>(from.data);
  int64_t num_wild = 0;
  for (int64_t j = 0; j < count; ++j) {
    bool any = false;
    float* const row = wild_rows + num_wild * tile_padded(width);
    for (int64_t c = 0; c < tile_padded(width); ++c) {
      const uint16_t bits = c < width ? values[j * from.row + c * from.column] : 0;
      const bool is_wild = (bits & 0x7f80) == 0x7f80;
      const uint32_t wide = is_wild ? uint32_t{bits} << 16 : 0;
      __builtin_memcpy(row + c, &wide, sizeof wide);
      any |= is_wild;
    }
    if (any) wild[num_wild++] = static_cast<int32_t>(j);
  }
  return num_wild;
}

/// 2^x for x ≤ 0 or slightly more, within 3 ulp; 0 below 2^-126, where a denormal would take a
/// microcode assist; NaN stays NaN. See exp in cpu/math.hpp.
DLBLAS_INLINE Vec power(Vec x) {
  const Vec z = x + broadcast(kSixteenths), n = z - broadcast(kSixteenths), r = x - n;
  const Vec less_1 = polynomial(r, {5.55041087e-2f, 2.40226507e-1f, 6.93147181e-1f}) * r;
  const Vec t = power_of_sixteenth(z);
  const Mask held = _mm512_cmp_ps_mask(x, broadcast(-126.0f), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(held, fma(less_1, t, t), n);
}

/// Mask of those keys [j, j + 16) that a row sees.
DLBLAS_INLINE Mask seen_lanes(int64_t j, int64_t from, int64_t to) {
  const auto below = [](int64_t n) __attribute__((always_inline)) {
    return n >= kWidth ? 0xffffu : n > 0 ? (1u << n) - 1u : 0u;
  };
  return static_cast<Mask>(below(to - j) & ~below(from - j));
}
/// Scores times `factor`, −inf where a row does not see the key. Each product is rounded and never
/// fused: the largest score must give exactly 2^0.
template <bool kAll>
DLBLAS_INLINE Vec load_scores(const float* row, int64_t j, int64_t from, int64_t to, Vec factor) {
  const Vec s = _mm512_mul_round_ps(load<DType::kF32>(row + j), factor, _MM_FROUND_CUR_DIRECTION);
  return kAll ? s : choose(seen_lanes(j, from, to), s, broadcast(-__builtin_inff()));
}

/// The keys that a tile's rows see, in whole panels; each row sees a part.
struct Sight {
  int64_t begin, end;
};
template <bool kValue>
struct Whole {
  static constexpr bool kAll = kValue;
};
/// Calls f(j, whole) for each panel of 32 keys; `whole` is a constant: whether the row sees all of
/// it.
template <typename F>
DLBLAS_INLINE void each_panel(Sight keys, int64_t from, int64_t to, const F& f) {
  int64_t j = keys.begin;
  for (; j < keys.end && j < from; j += kTileMultiple) f(j, Whole<false>{});
  for (; j + kTileMultiple <= to; j += kTileMultiple) f(j, Whole<true>{});
  for (; j < keys.end; j += kTileMultiple) f(j, Whole<false>{});
}

DLBLAS_INLINE float largest_of(const float* row, Sight keys, int64_t from, int64_t to, Vec factor,
                               float before) {
  Vec a = broadcast(before), b = a;
  each_panel(
      keys, from, to, [&](int64_t j, auto whole) __attribute__((always_inline)) {
        constexpr bool kAll = decltype(whole)::kAll;
        // The maximum of NaN and a number is the number.
        a = max_number(load_scores<kAll>(row, j, from, to, factor), a);
        b = max_number(load_scores<kAll>(row, j + kWidth, from, to, factor), b);
      });
  return _mm512_reduce_max_ps(max_number(a, b));
}
/// Turns scores into powers in bf16, in place; returns their sum.
DLBLAS_INLINE float powers_of(float* row, Sight keys, int64_t from, int64_t to, Vec factor,
                              float base) {
  Vec a = zero(), b = a;
  const Vec less = broadcast(base);
  auto* const out = reinterpret_cast<uint16_t*>(row);
  each_panel(
      keys, from, to, [&](int64_t j, auto whole) __attribute__((always_inline)) {
        constexpr bool kAll = decltype(whole)::kAll;
        const Vec p = power(load_scores<kAll>(row, j, from, to, factor) - less);
        const Vec q = power(load_scores<kAll>(row, j + kWidth, from, to, factor) - less);
        a = a + p, b = b + q;
        _mm512_storeu_si512(out + j, (__m512i)_mm512_cvtne2ps_pbh(q, p));
      });
  return reduce_add(a + b);
}

/// Applies the cap and the bias to scores; the result is in units of ln 2.
void shape_row(const TileBlock& b, float* row, int64_t from, int64_t to, const float* bias) {
  const Vec factor = broadcast(b.scale), limit = broadcast(b.cap),
            inverse = broadcast(b.cap != 0 ? 1 / b.cap : 0.0f);
  each_vector(
      to - from, [&](int64_t i, int n) __attribute__((always_inline)) {
        Vec s = mul(load_lanes<DType::kF32>(row + from + i, n), factor);
        if (b.cap != 0) s = mul(limit, tanh(mul(s, inverse)));
        if (bias) s = add(s, load_lanes<DType::kF32>(bias + i, n));
        store_lanes<DType::kF32>(row + from + i, mul(s, broadcast(kLog2E)), n);
      });
}

/// Turns a tile's scores into P, and rescales o to the new maximum.
void soften(const TileBlock& b, int64_t first, Sight keys, bool begun) {
  const bool shaped = b.cap != 0 || b.bias;
  const Vec factor = broadcast(shaped ? 1.0f : b.scale * kLog2E);
  const int64_t rows = smaller(kTileQueries, b.rows - first);
  alignas(64) float after[kTileQueries] = {}, base[kTileQueries], rescale[kTileQueries];
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t from = b.from[first + r], to = b.to[first + r];
    float* const row = b.scores + r * kTilePitch;
    if (shaped && from < to)
      shape_row(b, row, from, to, b.bias ? b.bias(b.self, first + r) : nullptr);
    after[r] = largest_of(row, keys, from, to, factor, b.most[first + r]);
  }
  DLBLAS_UNROLL
  for (int r = 0; r < kTileQueries; r += kWidth) {
    const Vec before = load<DType::kF32>(b.most + first + r), now = load<DType::kF32>(after + r);
    const Vec none = broadcast(-__builtin_inff());
    const Vec usual = choose(equal(now, none), zero(), now);
    store<DType::kF32>(base + r, usual);
    store<DType::kF32>(rescale + r,
                       choose(equal(before, now), broadcast(1.0f), power(before - usual)));
    store<DType::kF32>(b.most + first + r, now);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t from = b.from[first + r], to = b.to[first + r];
    float* const row = b.scores + r * kTilePitch;
    const float sum = powers_of(row, keys, from, to, factor, base[r]);
    b.sum[first + r] = b.sum[first + r] * rescale[r] + sum;
    if (!begun || rescale[r] == 1) continue;
    float* const o = b.o + (first + r) * b.dv;
    const Vec times = broadcast(rescale[r]);
    for (int64_t c = 0; c < b.dv; c += kWidth)
      store<DType::kF32>(o + c, mul(load<DType::kF32>(o + c), times));
  }
}

/// Adds the values that are not finite to the rows that see them.
void add_wild(const TileBlock& b, int64_t first) {
  for (int64_t i = 0; i < b.num_wild; ++i) {
    const float* const v = b.wild_rows + i * b.dv;
    for (int64_t r = first; r < first + kTileQueries; ++r) {
      if (b.wild[i] < b.from[r] || b.wild[i] >= b.to[r]) continue;
      const auto* const row =
          reinterpret_cast<const uint16_t*>(b.scores + (r - first) * kTilePitch);
      const uint32_t bits = uint32_t{row[b.wild[i]]} << 16;
      const Vec p = broadcast(__builtin_bit_cast(float, bits));
      for (int64_t c = 0; c < b.dv; c += kWidth) {
        const Vec value = load<DType::kF32>(v + c), o = load<DType::kF32>(b.o + r * b.dv + c);
        store<DType::kF32>(b.o + r * b.dv + c, choose(equal(value, zero()), o, fma(p, value, o)));
      }
    }
  }
}

/// 16 rows × 64 columns, for rows that would not fill two tiles: two panels of b, `b_next` bytes
/// apart.
void multiply_half(const PairArgs& t, int64_t b_next) {
  begin_tile<0>(t, 0, 0), begin_tile<1>(t, 0, kTileRows);
  begin_tile<2>(t, 0, 2 * kTileRows), begin_tile<3>(t, 0, 3 * kTileRows);
  constexpr int64_t kPitch = 2 * kChunkBytes;
  const char *a = t.a, *b = t.b;
  for (int64_t k = 0; k < t.chunks; ++k) {
    load_tile<4>(a, t.a_pitch);
    load_tile<5>(b, kPitch), load_tile<6>(b + kChunkBytes, kPitch);
    multiply_bf16<0, 4, 5>(), multiply_bf16<1, 4, 6>();
    load_tile<5>(b + b_next, kPitch), load_tile<6>(b + b_next + kChunkBytes, kPitch);
    multiply_bf16<2, 4, 5>(), multiply_bf16<3, 4, 6>();
    a += t.a_chunk, b += 2 * kTileBytes;
  }
  end_tile<0>(t, 0, 0), end_tile<1>(t, 0, kTileRows);
  end_tile<2>(t, 0, 2 * kTileRows), end_tile<3>(t, 0, 3 * kTileRows);
}
/// Columns [begin, end) of a tile's products: whole panels of `panel` floats each.
void multiply_panels(PairArgs t, int64_t begin, int64_t end, int64_t panel, bool half) {
  for (int64_t c = begin; c < end;) {
    PairArgs one = t;
    one.b += c / kTileMultiple * panel * 4;
    if (t.before) one.before += c;
    one.out += c;
    if (half && c + 2 * kTileMultiple <= end) {
      multiply_half(one, panel * 4), c += 2 * kTileMultiple;
    } else {
      multiply_square<Bf16Terms>(one), c += kTileMultiple;
    }
  }
}

void meet_tile(const TileBlock& b, int64_t tile) {
  const int64_t first = tile * kTileQueries;
  Sight keys{kTileBlock, 0};
  for (int64_t r = first; r < first + kTileQueries; ++r) {
    if (b.from[r] >= b.to[r]) continue;
    keys.begin = smaller(keys.begin, b.from[r]), keys.end = -smaller(-keys.end, -b.to[r]);
  }
  if (keys.begin >= keys.end) return;
  keys = {keys.begin / kTileMultiple * kTileMultiple, tile_padded(keys.end)};
  const bool half = b.rows - first <= kTileRows;
  PairArgs scores{};
  scores.chunks = b.d / kChunk;
  scores.a = static_cast<const char*>(b.q) + first * b.d * 2;
  scores.a_pitch = b.d * 2, scores.a_chunk = kChunkBytes;
  scores.b = reinterpret_cast<const char*>(b.k);
  scores.out = b.scores, scores.out_pitch = kTilePitch * 4;
  multiply_panels(scores, keys.begin, keys.end, tile_panel(b.d), half);
  soften(b, first, keys, b.begun[tile]);
  PairArgs sums{};
  sums.chunks = (keys.end - keys.begin) / kChunk;
  sums.a = reinterpret_cast<const char*>(b.scores) + keys.begin * 2;
  sums.a_pitch = kTilePitch * 4, sums.a_chunk = kChunkBytes;
  sums.b = reinterpret_cast<const char*>(b.v + keys.begin * kTileMultiple / 2);
  sums.out = b.o + first * b.dv, sums.before_pitch = sums.out_pitch = b.dv * 4;
  sums.before = b.begun[tile] ? sums.out : nullptr;
  multiply_panels(sums, 0, b.dv, tile_panel(b.count), half);
  b.begun[tile] = true;
  if (b.num_wild > 0) add_wild(b, first);
}

void meet(const TileBlock& b) {
  const Tiles tiles;
  for (int64_t tile = 0; tile * kTileQueries < b.rows; ++tile) meet_tile(b, tile);
}

void finish(const float* row, int64_t count, float factor, void* to) {
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        const Vec value = mul(load_lanes<DType::kF32>(row + i, n), broadcast(factor));
        store_lanes<kBf16>(at<kBf16>(to, i), value, n);
      });
}

}  // namespace

attention::AttentionTiles attention_tiles() {
  return {pack_query, pack_keys, pack_values, meet, finish, widen_row};
}

}  // namespace dlblas::avx512
