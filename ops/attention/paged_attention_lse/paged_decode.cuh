// Attention over a paged cache on tensor cores (sm_80 and later), for few rows a sequence: 16 rows
// of q, those of the heads that share a head of the cache, are the rows of a matrix instruction. A
// block has a part of their keys; each of its warps walks tiles of 16 keys through a ring of its
// own (no warp waits for another), with its own running maximum, and the warps join at the end.
// Parts of a sequence are joined by paged_join. In: f16 or bf16 queries, caches of the same or f8.
// Out: o and lse. Numerics: f32; a power is two numbers of 16 bits (2^-16 of it lost), sums in an
// order that the number of parts alone decides. Flow: call > validate > select > compile >
// [launch].  Read next: paged_keys.cuh, device/mma.cuh.
#pragma once

#include "device/attention/exponent.cuh"
#include "device/cp_async.cuh"
#include "device/mma.cuh"
#include "device/pdl.cuh"
#include "device/reduce.cuh"
#include "device/shared.cuh"
#include "ops/attention/f8_pair.cuh"
#include "ops/attention/paged_attention_lse/paged_keys.cuh"

namespace dlblas::attention {

inline constexpr int kRows = 16;  // of a tile of queries
inline constexpr int kKeys = 16;  // of a tile of keys

/// Bytes from a row of a tile in shared memory to the next: an odd number of 16 bytes, so that
/// eight rows meet all banks.
constexpr int tile_pitch(DType type, int columns) {
  const int chunks = (columns * size_of(type) + 15) / 16;
  return (chunks % 2 == 0 ? chunks + 1 : chunks) * 16;
}
constexpr int tile_bytes(const PagedTraits& s) {
  return kKeys * (tile_pitch(s.cache, s.depth) + tile_pitch(s.cache, s.width));
}
constexpr int decode_shared_bytes(const PagedTraits& s, const PagedDecodeConfig& c) {
  const int ring = c.stages * tile_bytes(s);
  const int joined = kRows * (s.width + 4) * 4;  // what a warp leaves at the end
  return c.warps * (ring > joined ? ring : joined);
}

/// Which rows a block has: heads of queries [begin, end) of a sequence, counted through.
struct DecodeTile {
  int32_t sequence, first;  // −1: none
};
/// Tiles are numbered so that a sequence's begin at starts·G/16 + its number; those behind the last
/// sequence's rows are tiles of a sequence without keys.
template <PagedTraits S>
__device__ inline DecodeTile decode_tile(const PagedParams& p, int32_t tile) {
  constexpr int kTiles = (S.group + kRows - 1) / kRows;
  if constexpr (!S.ragged) return {tile / kTiles, tile % kTiles * kRows};
  const auto begin = [&](int32_t b) {
    const int64_t start = min(p.queries, max(0, p.starts[b * p.starts_at]));
    return static_cast<int32_t>(start * S.group / kRows) + b;
  };
  int32_t low = 0, high = p.sequences + 1;
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (begin(middle) <= tile)
      low = middle + 1;
    else
      high = middle;
  }
  return low == 0 ? DecodeTile{-1, 0} : DecodeTile{low - 1, (tile - begin(low - 1)) * kRows};
}

template <PagedTraits S, PagedDecodeConfig C>
struct Decode {
  static constexpr bool kBf16 = S.q == DType::kBF16, kNarrow = is_f8(S.cache);
  static constexpr int kDepth = S.depth, kWidth = S.width, kBytes = size_of(S.cache);
  static constexpr int kSteps = kDepth / 16, kColumns = kWidth / 8;
  static constexpr int kKeyPitch = tile_pitch(S.cache, kDepth);
  static constexpr int kValuePitch = tile_pitch(S.cache, kWidth);
  static constexpr int kTile = tile_bytes(S);
  /// f16 holds little below 2^-14: powers are 2^10 times as large.
  static constexpr float kRaise = kBf16 ? 0.0f : 10.0f;

  const PagedParams& p;
  const Sequence<S>& sequence;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, q = lane % 4;
  int head;
  uint32_t ring;
  Sight rows[2];  // of rows g and g + 8
  int32_t begin, end;
  float factor;
  uint32_t query[kSteps][4];
  float acc[kColumns][4] = {}, most[2], sum[2] = {};
  int64_t next_page = 0;

  __device__ Decode(const PagedParams& params, const Sequence<S>& of, int h, uint32_t to)
      : p(params), sequence(of), head(h), ring(to) {}

  /// Heads of queries r and r + 8 of a tile; null where there is none. Of f8, a thread has four
  /// columns side by side of each 16.
  __device__ void load_query(const char* const (&row)[2]) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column =
            kNarrow ? k / 2 * 32 + q * 8 + k % 2 * 4 + i / 2 * 2 : k * 16 + i / 2 * 8 + q * 2;
        query[k][i] = row[i % 2] ? *reinterpret_cast<const uint32_t*>(row[i % 2] + column * 2) : 0u;
      }
  }

  /// This lane's key of the tile from `first` on: lanes 0 … 15 know where keys lie.
  __device__ void find_page(int32_t first) {
    const int32_t n = first + lane % kKeys;
    if (n < end) next_page = sequence.page(p, n);
  }
  template <int kPitch, int kRowBytes>
  __device__ void copy_rows(uint32_t to, const char* base, int64_t offset, int count) {
    constexpr int kChunks = kRowBytes / 16, kAll = kChunks * kKeys;
#pragma unroll
    for (int i = 0; i < (kAll + kWarp - 1) / kWarp; ++i) {
      const int at = i * kWarp + lane, row = at / kChunks, chunk = at % kChunks;
      const int64_t from = __shfl_sync(0xffffffffu, offset, row % kKeys);
      if (kAll % kWarp == 0 || at < kAll)
        cp_async(to + row * kPitch + chunk * 16,
                 row < count ? base + from * kBytes + chunk * 16 : base, row < count ? 16 : 0);
    }
  }
  /// Asks for the tile from `first` on; what lies behind the last key becomes 0.
  __device__ void fetch(int32_t first, int slot, int32_t following) {
    if (first < end) {
      const int32_t n = first + lane % kKeys;
      const int count = min(kKeys, end - first);
      const int64_t key = Sequence<S>::offset(p.k_at, next_page, n, head);
      const int64_t value = Sequence<S>::offset(p.v_at, next_page, n, head);
      find_page(following);
      const uint32_t to = ring + slot * kTile;
      copy_rows<kKeyPitch, kDepth * kBytes>(to, static_cast<const char*>(p.k), key, count);
      copy_rows<kValuePitch, kWidth * kBytes>(to + kKeys * kKeyPitch, static_cast<const char*>(p.v),
                                              value, count);
    }
    cp_async_commit();
  }

  __device__ void scores(uint32_t keys, float (&s)[2][4]) const {
    if constexpr (kNarrow) {
#pragma unroll
      for (int k = 0; k < kSteps; k += 2)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          uint32_t codes[2];
          const uint32_t from = keys + (n * 8 + g) * kKeyPitch + k * 16 + q * 8;
          asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                       : "=r"(codes[0]), "=r"(codes[1])
                       : "r"(from)
                       : "memory");
#pragma unroll
          for (int i = 0; i < 2; ++i)
            mma_16x8x16<kBf16>(s[n], query[k + i], widen_pair<S.cache, S.q>(codes[i] & 0xffffu),
                               widen_pair<S.cache, S.q>(codes[i] >> 16));
        }
    } else {
      const uint32_t mine = keys + (lane % 8 + lane / 16 * 8) * kKeyPitch + lane / 8 % 2 * 16;
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        uint32_t b[4];
        load_tiles<false>(b, mine + k * 32);
        mma_16x8x16<kBf16>(s[0], query[k], b[0], b[1]);
        mma_16x8x16<kBf16>(s[1], query[k], b[2], b[3]);
      }
    }
  }

  __device__ void multiply(int n, const uint32_t (&high)[4], const uint32_t (&low)[4], uint32_t b0,
                           uint32_t b1) {
    mma_16x8x16<kBf16>(acc[n], high, b0, b1);
    mma_16x8x16<kBf16>(acc[n], low, b0, b1);
  }
  __device__ void mix(uint32_t values, const uint32_t (&high)[4], const uint32_t (&low)[4]) {
    if constexpr (kNarrow) {
      // Columns of an instruction are the even, or the odd, of 16.
      const uint32_t mine = values + lane % 16 * kValuePitch;
#pragma unroll
      for (int c = 0; c < kWidth / 16; ++c) {
        uint32_t r0, r1;
        load_two_tiles<true>(r0, r1, mine + c * 16);
        multiply(2 * c, high, low, widen_pair<S.cache, S.q>(__byte_perm(r0, 0, 0x4420)),
                 widen_pair<S.cache, S.q>(__byte_perm(r1, 0, 0x4420)));
        multiply(2 * c + 1, high, low, widen_pair<S.cache, S.q>(__byte_perm(r0, 0, 0x4431)),
                 widen_pair<S.cache, S.q>(__byte_perm(r1, 0, 0x4431)));
      }
    } else {
      const uint32_t mine = values + lane % 16 * kValuePitch + lane / 16 * 16;
#pragma unroll
      for (int c = 0; c < kColumns; c += 2) {
        uint32_t b[4];
        load_tiles<true>(b, mine + c * 16);
        multiply(c, high, low, b[0], b[1]);
        multiply(c + 1, high, low, b[2], b[3]);
      }
    }
  }

  /// The tile from `first` on, which has landed in `slot`.
  __device__ void take(int32_t first, int slot) {
    const uint32_t keys = ring + slot * kTile;
    float s[2][4] = {};
    scores(keys, s);
    const bool whole = first >= max(rows[0].first, rows[1].first) &&
                       first + kKeys <= min(rows[0].end, rows[1].end);
    float largest[2] = {most[0], most[1]};
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[n][i] = logit<S>(p, s[n][i], factor);
        if (!whole) {
          const int32_t key = first + n * 8 + q * 2 + i % 2;
          if (key < rows[i / 2].first || key >= rows[i / 2].end) s[n][i] = nothing();
        }
        largest[i / 2] = fmaxf(largest[i / 2], s[n][i]);
      }
    float scale[2], base[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      largest[r] = fmaxf(largest[r], __shfl_xor_sync(0xffffffffu, largest[r], 1));
      largest[r] = fmaxf(largest[r], __shfl_xor_sync(0xffffffffu, largest[r], 2));
      base[r] = largest[r] == nothing() ? 0 : largest[r];
      scale[r] = DeviceMath::exp2(most[r] - base[r]);
    }
    if (__any_sync(0xffffffffu, largest[0] != most[0] || largest[1] != most[1])) {
#pragma unroll
      for (auto& a : acc)
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] *= scale[i / 2];
      sum[0] *= scale[0], sum[1] *= scale[1];
      most[0] = largest[0], most[1] = largest[1];
    }
    const float raised[2] = {raised_base(base[0], kRaise), raised_base(base[1], kRaise)};
    uint32_t high[4], low[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float* const pair = &s[i / 2][i % 2 * 2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        pair[j] = DeviceMath::exp2(pair[j] - raised[i % 2]);
        sum[i % 2] += pair[j];
      }
      high[i] = pack_pair<S.q>(pair[0], pair[1]);
      const FloatPair taken = unpack_pair<S.q>(high[i]);
      low[i] = pack_pair<S.q>(pair[0] - taken.low, pair[1] - taken.high);
    }
    mix(keys + kKeys * kKeyPitch, high, low);
  }

  /// All tiles of this warp.
  __device__ void walk(int warp) {
    constexpr int32_t kStride = C.warps * kKeys;
    most[0] = most[1] = nothing();
    int32_t first = begin + warp * kKeys, ahead = first;
    find_page(first);
#pragma unroll
    for (int i = 0; i < C.stages - 1; ++i, ahead += kStride) fetch(ahead, i, ahead + kStride);
    int slot = 0, next = C.stages - 1;
#pragma unroll 1
    for (; first < end; first += kStride, ahead += kStride) {
      cp_async_wait<C.stages - 2>();
      __syncwarp();
      fetch(ahead, next, ahead + kStride);
      take(first, slot);
      slot = slot + 1 == C.stages ? 0 : slot + 1;
      next = next + 1 == C.stages ? 0 : next + 1;
      __syncwarp();
    }
    cp_async_wait<0>();
  }

  /// Columns of acc[n][0] and [1], and of [2] and [3].
  __device__ int column(int n, int i) const {
    return kNarrow ? n / 2 * 16 + q * 4 + n % 2 + i * 2 : n * 8 + q * 2 + i;
  }
};

template <PagedTraits S, PagedDecodeConfig C>
__global__ void __launch_bounds__(C.warps* kWarp, C.blocks)
    paged_decode(const __grid_constant__ PagedParams p) {
  using Part = Decode<S, C>;
  constexpr int kThreads = C.warps * kWarp, kLine = S.width + 4;  // of a warp's rows, in floats
  extern __shared__ __align__(16) unsigned char decode_memory[];
  __shared__ float maxima[C.warps][kRows], sums[C.warps][kRows];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp;
  const uint32_t unit = blockIdx.x / static_cast<uint32_t>(p.parts);
  const int part = static_cast<int>(blockIdx.x - unit * p.parts);
  const auto tile = static_cast<int32_t>(unit / static_cast<uint32_t>(p.heads));
  const int head = static_cast<int>(unit) - tile * p.heads;
  const DecodeTile at = decode_tile<S>(p, tile);
  if (at.sequence < 0) return;

  // Behind the last sequence lie rows that see nothing.
  const bool blind = S.ragged && at.sequence == p.sequences;
  Sequence<S> sequence(p, blind ? 0 : at.sequence);
  if (blind) {
    sequence.begin = min(p.queries, max(0, p.starts[p.sequences * p.starts_at]));
    sequence.end = p.queries, sequence.length = 0;
  }
  const int64_t all = int64_t{sequence.end - sequence.begin} * S.group;
  if (at.first >= all) return;
  const int count = static_cast<int>(min(int64_t{kRows}, all - at.first));
  const auto row_of = [&](int r) { return sequence.begin + (at.first + r) / S.group; };
  const auto head_of = [&](int r) { return head * S.group + (at.first + r) % S.group; };

  constexpr int kShare = decode_shared_bytes(S, C) / C.warps;
  Part of(p, sequence, head, shared_address(decode_memory) + warp * kShare);
  const char* query[2] = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = of.g + 8 * i;
    of.rows[i] = {0, 0};
    if (r >= count) continue;
    query[i] = static_cast<const char*>(p.q) + 2 * (row_of(r) * p.q_at[0] + head_of(r) * p.q_at[1]);
    of.rows[i] = sequence.sight(p, row_of(r));
  }
  // All keys that a row of the tile sees, in parts of whole tiles.
  const int32_t first = sequence.sight(p, row_of(0)).first;
  const int32_t end = sequence.sight(p, row_of(count - 1)).end;
  const int32_t tiles = (max(0, end - first) + kKeys - 1) / kKeys;
  const int32_t share = max((tiles + p.parts - 1) / p.parts, C.warps);
  of.begin = static_cast<int32_t>(min(int64_t{end}, first + int64_t{share} * part * kKeys));
  of.end = static_cast<int32_t>(min(int64_t{end}, of.begin + int64_t{share} * kKeys));
  of.factor = factor_of<S>(p);
  of.load_query(query);
  of.walk(warp);
  launch_dependents();

  // The warps' rows side by side.
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    of.sum[i] = warp_sum<4>(of.sum[i]);
    if (of.q == 0) maxima[warp][of.g + 8 * i] = of.most[i], sums[warp][of.g + 8 * i] = of.sum[i];
  }
  __syncwarp();
  auto* const mine = reinterpret_cast<float*>(decode_memory + warp * kShare);
#pragma unroll
  for (int n = 0; n < Part::kColumns; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      mine[(of.g + i / 2 * 8) * kLine + of.column(n, i % 2)] = of.acc[n][i];
  __syncthreads();

  const float raised = DeviceMath::exp2(-Part::kRaise);
  constexpr int kQuads = S.width / 4;
  for (int i = thread; i < count * kQuads; i += kThreads) {
    const int r = i / kQuads, d = i % kQuads * 4;
    const bool sinks = p.sinks && p.parts == 1 && !blind;
    const float sink = sinks ? p.sinks[head_of(r) * p.sinks_at] * kLog2E : nothing();
    float most = sink, total = 0, o[4] = {};
#pragma unroll
    for (int w = 0; w < C.warps; ++w) most = fmaxf(most, maxima[w][r]);
    const float base = most == nothing() ? 0 : most;
    // A warp's sum of NaN has no maximum.
#pragma unroll
    for (int w = 0; w < C.warps; ++w) {
      const float weight = DeviceMath::exp2(maxima[w][r] - base) * raised;
      const float own = sums[w][r];
      const float* const from =
          reinterpret_cast<const float*>(decode_memory + w * kShare) + r * kLine + d;
      if (maxima[w][r] == nothing() && own == 0) continue;
      const float share_of = own != own ? own : weight;
      total += own * share_of;
#pragma unroll
      for (int j = 0; j < 4; ++j) o[j] += from[j] * share_of;
    }
    total += DeviceMath::exp2(sink - base);
    const float lse = total == 0 ? nothing() : most + ::log2f(total);
    if (p.parts > 1) {
      const float inverse = total == 0 ? 0 : 1 / total;
      const int64_t place = (int64_t{unit} * p.parts + part) * kRows + r;
#pragma unroll
      for (int j = 0; j < 4; ++j) o[j] *= inverse;
      *reinterpret_cast<float4*>(p.part_o + place * S.width + d) = {o[0], o[1], o[2], o[3]};
      if (d == 0) p.part_lse[place] = total != total ? total : lse;
    } else {
      const float inverse = total == 0 ? 0 : (p.v_scale ? *p.v_scale : 1.0f) / total;
      const uint2 words = {pack_pair<S.q>(o[0] * inverse, o[1] * inverse),
                           pack_pair<S.q>(o[2] * inverse, o[3] * inverse)};
      *reinterpret_cast<uint2*>(static_cast<char*>(p.o) +
                                2 * (row_of(r) * p.o_at[0] + head_of(r) * p.o_at[1] + d)) = words;
      if (d == 0)
        static_cast<float*>(p.lse)[row_of(r) * p.lse_at[0] + head_of(r) * p.lse_at[1]] =
            (total != total ? total : lse) * 0.69314718f;
    }
  }
}

/// Joins the parts of paged_decode: a block has a row of a tile.
template <PagedTraits S, PagedDecodeConfig C>
__global__ void __launch_bounds__(S.width / 4) paged_join(const __grid_constant__ PagedParams p) {
  constexpr int kMost = S.ragged || S.group > kRows ? kRows : S.group;
  const uint32_t unit = blockIdx.x / kMost;
  const int r = static_cast<int>(blockIdx.x - unit * kMost), d = static_cast<int>(threadIdx.x) * 4;
  const auto tile = static_cast<int32_t>(unit / static_cast<uint32_t>(p.heads));
  const int head = static_cast<int>(unit) - tile * p.heads;
  const DecodeTile at = decode_tile<S>(p, tile);
  if (at.sequence < 0) return;
  const bool blind = S.ragged && at.sequence == p.sequences;
  Sequence<S> sequence(p, blind ? 0 : at.sequence);
  if (blind) {
    sequence.begin = min(p.queries, max(0, p.starts[p.sequences * p.starts_at]));
    sequence.end = p.queries;
  }
  if (at.first + int64_t{r} >= int64_t{sequence.end - sequence.begin} * S.group) return;
  const int32_t t = sequence.begin + (at.first + r) / S.group;
  const int h = head * S.group + (at.first + r) % S.group;

  wait_for_dependencies();
  const float sink = p.sinks && !blind ? p.sinks[h * p.sinks_at] * kLog2E : nothing();
  const int64_t place = int64_t{unit} * p.parts * kRows + r;
  float most = sink, total = 0, o[4] = {};
  for (int i = 0; i < p.parts; ++i) {
    const float lse = p.part_lse[place + i * kRows];
    most = lse != lse ? lse : fmaxf(most, lse);
    if (most != most) break;
  }
  const float base = most == nothing() ? 0 : most;
#pragma unroll 4
  for (int i = 0; i < p.parts; ++i) {
    const float weight = DeviceMath::exp2(p.part_lse[place + i * kRows] - base);
    const float4 v = *reinterpret_cast<const float4*>(p.part_o + (place + i * kRows) * S.width + d);
    total += weight;
    o[0] = fmaf(weight, v.x, o[0]), o[1] = fmaf(weight, v.y, o[1]);
    o[2] = fmaf(weight, v.z, o[2]), o[3] = fmaf(weight, v.w, o[3]);
  }
  total += DeviceMath::exp2(sink - base);
  const float inverse = total == 0 ? 0 : (p.v_scale ? *p.v_scale : 1.0f) / total;
  const uint2 words = {pack_pair<S.q>(o[0] * inverse, o[1] * inverse),
                       pack_pair<S.q>(o[2] * inverse, o[3] * inverse)};
  *reinterpret_cast<uint2*>(static_cast<char*>(p.o) + 2 * (t * p.o_at[0] + h * p.o_at[1] + d)) =
      words;
  if (d == 0)
    static_cast<float*>(p.lse)[t * p.lse_at[0] + h * p.lse_at[1]] =
        (total == 0 ? nothing() : most + ::log2f(total)) * 0.69314718f;
}

}  // namespace dlblas::attention
