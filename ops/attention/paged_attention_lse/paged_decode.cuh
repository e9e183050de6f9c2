// Attention over a paged cache on tensor cores (sm_80 and later), for few rows per sequence: up to
// 8 or 16 rows of q, from the heads that share a head of the cache, are the columns of an MMA; keys
// (and then columns of values) are its 16 rows. A block takes a part of the keys of one or more
// heads. Each of its warps walks tiles through a ring buffer of its own, independently of the
// others, with its own running maximum; the warps of a head merge at the end. paged_join joins the
// parts of a sequence. In: f16 or bf16 queries, caches of the same type or f8. Out: o and lse.
// Numerics: f32; a power is split into two 16-bit numbers (which loses 2^-16 of it); the order of
// sums depends on the number of parts alone. Flow: call > validate > select > compile > [launch].
// Read next: paged_keys.cuh, device/mma.cuh.
#pragma once

#include "device/attention/exponent.cuh"
#include "device/bulk_copy.cuh"
#include "device/cp_async.cuh"
#include "device/mma.cuh"
#include "device/pdl.cuh"
#include "device/reduce.cuh"
#include "device/shared.cuh"
#include "ops/attention/cuda/f8_pair.cuh"
#include "ops/attention/cuda/join_parts.cuh"
#include "ops/attention/paged_attention_lse/paged_keys.cuh"

namespace dlblas::attention {

/// The rows of a block: heads of queries [first, …) of a sequence, numbered consecutively.
struct DecodeTile {
  int32_t sequence, first;  // −1: none
};
/// A sequence's tiles begin at starts·G/16 + its number; the tiles past the last sequence's rows
/// belong to a sequence without keys.
template <PagedTraits S>
__device__ inline DecodeTile decode_tile(const PagedParams& p, int32_t tile) {
  constexpr int kRows = decode_rows(S), kTiles = (S.group + kRows - 1) / kRows;
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
  static constexpr int kKeys = C.keys, kEights = decode_rows(S) / 8;
  static constexpr int kSteps = kDepth / 16, kBands = kWidth / 16, kHalves = kKeys / 16;
  static constexpr int kKeyPitch = decode_pitch(S.cache, kDepth);
  static constexpr int kValuePitch = decode_pitch(S.cache, kWidth);
  static constexpr int kTile = decode_tile_bytes(S, C);
  static constexpr int kStride = C.warps / C.heads * kKeys;  // from a warp's tile to its next
  /// Entries of the page table that a tile needs, each for kOfEntry keys. Tiles begin at multiples
  /// of their size; if that neither divides the page nor is a multiple of it, each key is looked
  /// up.
  static constexpr int kEntries = S.page % kKeys == 0   ? 1
                                  : kKeys % S.page == 0 ? kKeys / S.page
                                                        : kKeys;
  static constexpr int kOfEntry = kKeys / kEntries;
  static constexpr int kAhead = kWarp / kEntries;  // tiles whose entries a warp's lanes hold
  /// Rows at one position of a sequence see the same keys.
  static constexpr int kSights = S.ragged ? 2 * kEights : 1;
  /// f16 holds little below 2^-14: powers are scaled by 2^10.
  static constexpr float kRaise = kBf16 ? 0.0f : 10.0f;

  const PagedParams& p;
  const Sequence<S>& sequence;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, q = lane % 4;
  int head;
  uint32_t ring;
  Mbarrier* full;       // of a slot, with `bulk`
  Sight rows[kSights];  // of rows 8·i + 2q and + 1
  int32_t begin, end;
  float factor;
  uint32_t query[kSteps][kEights][2];
  float acc[kBands][kEights][4] = {}, most[kEights][2], sum[kEights][2] = {};
  int32_t pages = 0, more_pages = 0;  // of kAhead tiles, and of the next as many

  __device__ Decode(const PagedParams& params, const Sequence<S>& of, int h, uint32_t to,
                    Mbarrier* barriers)
      : p(params), sequence(of), head(h), ring(to), full(barriers) {}

  /// Loads row 8·i + g of a tile; null: there is none. For f8, a thread has four contiguous columns
  /// of each 16.
  __device__ void load_query(int i, const char* row) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int column =
            kNarrow ? k / 2 * 32 + q * 8 + k % 2 * 4 + j * 2 : k * 16 + j * 8 + q * 2;
        query[k][i][j] = row ? *reinterpret_cast<const uint32_t*>(row + column * 2) : 0u;
      }
  }

  /// The pages of kAhead tiles, the first of which begins at key `first`.
  __device__ int32_t find_pages(int32_t first) const {
    const int32_t n = first + lane / kEntries * kStride + lane % kEntries * kOfEntry;
    return n < end ? static_cast<int32_t>(sequence.page(p, n)) : 0;
  }
  __device__ int64_t offset(const int64_t (&at)[4], int32_t page, int32_t n) const {
    return Sequence<S>::offset(at, page, n, head);
  }
  template <int kPitch, int kRowBytes>
  __device__ void copy_rows(uint32_t to, const char* base, const int64_t (&at)[4], int32_t first,
                            int count, int tile) {
    constexpr int kChunks = kRowBytes / 16, kAll = kChunks * kKeys;
    constexpr bool kSimple = kEntries == 1 && kWarp % kChunks == 0;
    if constexpr (kSimple) {
      const int chunk = lane % kChunks;
      const int32_t page = __shfl_sync(0xffffffffu, pages, tile);
      const char* from =
          base + (offset(at, page, first) + lane / kChunks * at[1]) * kBytes + chunk * 16;
      const int64_t step = kWarp / kChunks * at[1] * kBytes;
#pragma unroll
      for (int i = 0; i < kKeys; i += kWarp / kChunks, from += step) {
        const int row = i + lane / kChunks;
        cp_async(to + row * kPitch + chunk * 16, row < count ? from : base, row < count ? 16 : 0);
      }
    } else {
#pragma unroll
      for (int i = 0; i < (kAll + kWarp - 1) / kWarp; ++i) {
        const int each = i * kWarp + lane, row = each / kChunks, chunk = each % kChunks;
        const int32_t page =
            __shfl_sync(0xffffffffu, pages, tile * kEntries + row % kKeys / kOfEntry);
        if (kAll % kWarp == 0 || each < kAll)
          cp_async(to + row * kPitch + chunk * 16,
                   row < count ? base + offset(at, page, first + row) * kBytes + chunk * 16 : base,
                   row < count ? 16 : 0);
      }
    }
  }
  /// Each lane copies one row of K, or of V, at a time.
  __device__ void copy_bulk(uint32_t to, int32_t first, int count, int tile, Mbarrier& landed) {
    if (lane == 0) landed.arrive_expect_tx(count * (kDepth + kWidth) * kBytes);
#pragma unroll
    for (int i = 0; i < 2 * kKeys / kWarp; ++i) {
      const int each = i * kWarp + lane, row = each % kKeys;
      const int32_t page = __shfl_sync(0xffffffffu, pages, tile * kEntries + row / kOfEntry);
      const bool of_keys = each < kKeys;
      const uint32_t place =
          to + (of_keys ? row * kKeyPitch : kKeys * kKeyPitch + row * kValuePitch);
      const char* const base = static_cast<const char*>(of_keys ? p.k : p.v);
      const int64_t from =
          of_keys ? offset(p.k_at, page, first + row) : offset(p.v_at, page, first + row);
      if (row < count) {
        bulk_load_once(place, base + from * kBytes, (of_keys ? kDepth : kWidth) * kBytes, landed);
      } else {
        for (int c = 0; c < (of_keys ? kDepth : kWidth) * kBytes; c += 16)
          store_shared(place + c, {0, 0, 0, 0});
      }
    }
  }
  /// Issues the copies of a warp's tile number `number`, which begins at `first`; rows past the
  /// last key become 0.
  __device__ void fetch(int32_t first, int slot, int number) {
    if (first < end) {
      const int tile = number % kAhead, count = min(kKeys, end - first);
      if (number != 0 && tile == 0) {
        pages = more_pages;
        more_pages = find_pages(first + kAhead * kStride);
      }
      const uint32_t to = ring + slot * kTile;
      if constexpr (C.bulk) {
        copy_bulk(to, first, count, tile, full[slot]);
      } else {
        copy_rows<kKeyPitch, kDepth * kBytes>(to, static_cast<const char*>(p.k), p.k_at, first,
                                              count, tile);
        copy_rows<kValuePitch, kWidth * kBytes>(
            to + kKeys * kKeyPitch, static_cast<const char*>(p.v), p.v_at, first, count, tile);
      }
    }
    if constexpr (!C.bulk) cp_async_commit();
  }

  /// Products of 16 keys with all rows: key g (and g + 8) by rows 2q and 2q + 1.
  __device__ void scores(uint32_t keys, float (&s)[kEights][4]) const {
    float more[kEights][4] = {};  // of every other step: a chain half as long
    if constexpr (kNarrow) {
#pragma unroll
      for (int k = 0; k < kSteps; k += 2) {
        uint32_t codes[2][2];
#pragma unroll
        for (int half = 0; half < 2; ++half)
          asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                       : "=r"(codes[half][0]), "=r"(codes[half][1])
                       : "r"(keys + (half * 8 + g) * kKeyPitch + k * 16 + q * 8)
                       : "memory");
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          uint32_t a[4];
#pragma unroll
          for (int j = 0; j < 4; ++j)
            a[j] = widen_pair<S.cache, S.q>(codes[j % 2][i] >> j / 2 * 16 & 0xffffu);
#pragma unroll
          for (int c = 0; c < kEights; ++c)
            mma_16x8x16<kBf16>(i == 0 ? s[c] : more[c], a, query[k + i][c][0], query[k + i][c][1]);
        }
      }
    } else {
      const uint32_t mine = keys + lane % 16 * kKeyPitch + lane / 16 * 16;
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        uint32_t a[4];
        load_tiles<false>(a, mine + k * 32);
#pragma unroll
        for (int c = 0; c < kEights; ++c)
          mma_16x8x16<kBf16>(k % 2 == 0 ? s[c] : more[c], a, query[k][c][0], query[k][c][1]);
      }
    }
#pragma unroll
    for (int c = 0; c < kEights; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[c][i] += more[c][i];
  }

  /// acc += values of 16 keys times powers; columns of values are the instruction's rows.
  __device__ void mix(uint32_t values, const uint32_t (&high)[kEights][2],
                      const uint32_t (&low)[kEights][2]) {
    // For f8, rows g are even columns, and rows g + 8 the odd ones that follow them.
    const int row = kNarrow ? lane % 16 : lane / 16 * 8 + lane % 8;
    const uint32_t mine = values + row * kValuePitch + (kNarrow ? 0 : lane / 8 % 2 * 16);
#pragma unroll
    for (int n = 0; n < kBands; ++n) {
      uint32_t a[4];
      if constexpr (kNarrow) {
        uint32_t r[2];
        load_two_tiles<true>(r[0], r[1], mine + n * 16);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          a[j] = widen_pair<S.cache, S.q>(__byte_perm(r[j / 2], 0, j % 2 == 0 ? 0x4420 : 0x4431));
      } else {
        load_tiles<true>(a, mine + n * 32);
      }
#pragma unroll
      for (int c = 0; c < kEights; ++c) {
        mma_16x8x16<kBf16>(acc[n][c], a, high[c][0], high[c][1]);
        mma_16x8x16<kBf16>(acc[n][c], a, low[c][0], low[c][1]);
      }
    }
  }

  __device__ const Sight& sight_of(int c, int j) const { return rows[S.ragged ? 2 * c + j : 0]; }
  __device__ bool seen_whole(int32_t first) const {
    bool whole = true;
#pragma unroll
    for (const Sight& s : rows) whole = whole && first >= s.first && first + kKeys <= s.end;
    return whole;
  }

  /// Processes the tile from `first` on, which has arrived in `slot`.
  __device__ void take(int32_t first, int slot) {
    const uint32_t keys = ring + slot * kTile;
    float s[kHalves][kEights][4] = {};
#pragma unroll
    for (int h = 0; h < kHalves; ++h) scores(keys + h * 16 * kKeyPitch, s[h]);
    const bool whole = seen_whole(first);
    float scale[kEights][2], raised[kEights][2];
    bool moved = false;
#pragma unroll
    for (int c = 0; c < kEights; ++c)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float largest = most[c][j];
#pragma unroll
        for (int h = 0; h < kHalves; ++h)
#pragma unroll
          for (int i = j; i < 4; i += 2) {
            float& x = s[h][c][i];
            x = logit<S>(p, x, factor);
            if (!whole) {
              const int32_t key = first + h * 16 + g + i / 2 * 8;
              if (key < sight_of(c, j).first || key >= sight_of(c, j).end) x = nothing();
            }
            largest = fmaxf(largest, x);
          }
#pragma unroll
        for (int lanes = 4; lanes < kWarp; lanes *= 2)
          largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));
        const float base = largest == nothing() ? 0 : largest;
        scale[c][j] = DeviceMath::exp2(most[c][j] - base);
        raised[c][j] = raised_base(base, kRaise);
        moved = moved || largest != most[c][j];
        most[c][j] = largest;
      }
    if (__any_sync(0xffffffffu, moved)) {
#pragma unroll
      for (int c = 0; c < kEights; ++c) {
#pragma unroll
        for (auto& a : acc)
#pragma unroll
          for (int i = 0; i < 4; ++i) a[c][i] *= scale[c][i % 2];
        sum[c][0] *= scale[c][0], sum[c][1] *= scale[c][1];
      }
    }
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      uint32_t high[kEights][2], low[kEights][2];
#pragma unroll
      for (int c = 0; c < kEights; ++c)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float* const pair = &s[h][c][2 * i];
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            pair[j] = DeviceMath::exp2(pair[j] - raised[c][j]);
            sum[c][j] += pair[j];
          }
          const uint32_t word = pack_pair<S.q>(pair[0], pair[1]);
          const FloatPair taken = unpack_pair<S.q>(word);
          high[c][i] = transpose_tile(word);
          low[c][i] = transpose_tile(pack_pair<S.q>(pair[0] - taken.low, pair[1] - taken.high));
        }
      mix(keys + kKeys * kKeyPitch + h * 16 * kValuePitch, high, low);
    }
  }

  /// Processes all tiles of this warp, the first of which begins at `first`.
  __device__ void walk(int32_t first) {
#pragma unroll
    for (int c = 0; c < kEights; ++c) most[c][0] = most[c][1] = nothing();
    pages = find_pages(first);
    more_pages = find_pages(first + kAhead * kStride);
    int number = 0, slot = 0;
    uint32_t parity = 0;
#pragma unroll
    for (; number < C.stages; ++number) fetch(first + number * kStride, number, number);
#pragma unroll 1
    for (; first < end; first += kStride, ++number) {
      if constexpr (C.bulk)
        full[slot].wait(parity);
      else
        cp_async_wait<C.stages - 1>();
      __syncwarp();
      take(first, slot);
      __syncwarp();
      fetch(first + C.stages * kStride, slot, number);
      if (++slot == C.stages) slot = 0, parity ^= 1;
    }
    if constexpr (!C.bulk) cp_async_wait<0>();
#pragma unroll
    for (int c = 0; c < kEights; ++c)
#pragma unroll
      for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int lanes = 4; lanes < kWarp; lanes *= 2)
          sum[c][j] += __shfl_xor_sync(0xffffffffu, sum[c][j], lanes);
  }

  /// The column of acc[n][c][i].
  __device__ int column(int n, int i) const {
    return n * 16 + (kNarrow ? g * 2 + i / 2 : g + i / 2 * 8);
  }
};

template <PagedTraits S, PagedDecodeConfig C>
__global__ void __launch_bounds__(C.warps* kWarp, C.blocks)
    paged_decode(const __grid_constant__ PagedParams p) {
  using Part = Decode<S, C>;
  static_assert(C.warps % C.heads == 0 && C.keys % 16 == 0 && C.keys <= kWarp);
  constexpr int kThreads = C.warps * kWarp, kLine = S.width + 4;  // of a warp's rows, in floats
  constexpr int kRows = decode_rows(S), kSlices = C.warps / C.heads;
  extern __shared__ __align__(16) unsigned char decode_memory[];
  __shared__ float maxima[C.warps][kRows], sums[C.warps][kRows];
  __shared__ Mbarrier barriers[C.bulk ? C.warps : 1][C.stages];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp;
  // Grid order: heads first, which are contiguous in memory, then parts, then tiles.
  const auto some = static_cast<uint32_t>(p.heads) / C.heads;
  const uint32_t of_heads = blockIdx.x / some;
  const int first_head = static_cast<int>(blockIdx.x - of_heads * some) * C.heads;
  const auto tile = static_cast<int32_t>(of_heads / static_cast<uint32_t>(p.parts));
  const int part = static_cast<int>(of_heads) - tile * p.parts;
  launch_dependents();
  wait_for_dependencies();
  const DecodeTile at = decode_tile<S>(p, tile);
  if (at.sequence < 0) return;

  // The rows past the last sequence see nothing.
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
  const auto head_of = [&](int head, int r) { return head * S.group + (at.first + r) % S.group; };

  constexpr int kShare = decode_warp_bytes(S, C);
  const int head = first_head + warp % C.heads;
  Part of(p, sequence, head, shared_address(decode_memory) + warp * kShare,
          barriers[C.bulk ? warp : 0]);
  if constexpr (C.bulk) {
    if (of.lane == 0) {
      for (int i = 0; i < C.stages; ++i) of.full[i].init(1);
      fence_mbarrier_init();
    }
    __syncwarp();
  }
#pragma unroll
  for (int i = 0; i < Part::kEights; ++i) {
    const int r = of.g + 8 * i;
    of.load_query(i, r < count ? static_cast<const char*>(p.q) +
                                     2 * (row_of(r) * p.q_at[0] + head_of(head, r) * p.q_at[1])
                               : nullptr);
  }
#pragma unroll
  for (int i = 0; i < Part::kSights; ++i) {
    const int r = S.ragged ? i / 2 * 8 + of.q * 2 + i % 2 : 0;
    of.rows[i] = r < count ? sequence.sight(p, row_of(r)) : Sight{0, 0};
  }
  // All keys that a row of the tile sees, in parts of whole tiles.
  const int32_t first = sequence.sight(p, row_of(0)).first / C.keys * C.keys;
  const int32_t end = sequence.sight(p, row_of(count - 1)).end;
  const int32_t tiles = (max(0, end - first) + C.keys - 1) / C.keys;
  const int32_t share = max((tiles + p.parts - 1) / p.parts, kSlices);
  of.begin = static_cast<int32_t>(min(int64_t{end}, first + int64_t{share} * part * C.keys));
  of.end = static_cast<int32_t>(min(int64_t{end}, of.begin + int64_t{share} * C.keys));
  of.factor = factor_of<S>(p);
  of.walk(of.begin + warp / C.heads * C.keys);

  // Each warp stores its rows to its own shared memory.
  auto* const mine = reinterpret_cast<float*>(decode_memory + warp * kShare);
  __syncwarp();
#pragma unroll
  for (int c = 0; c < Part::kEights; ++c)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int r = c * 8 + of.q * 2 + j;
      if (r >= count) continue;
      if (of.g == 0) maxima[warp][r] = of.most[c][j], sums[warp][r] = of.sum[c][j];
#pragma unroll
      for (int n = 0; n < Part::kBands; ++n)
#pragma unroll
        for (int i = j; i < 4; i += 2) mine[r * kLine + of.column(n, i)] = of.acc[n][c][i];
    }
  __syncthreads();

  const float raised = DeviceMath::exp2(-Part::kRaise);
  constexpr int kQuads = S.width / 4;
  for (int i = thread; i < C.heads * count * kQuads; i += kThreads) {
    const int line = i / kQuads, d = i % kQuads * 4, own_head = line / count;
    const int r = line - own_head * count, h = first_head + own_head;
    const bool sinks = p.sinks && p.parts == 1 && !blind;
    const float sink = sinks ? p.sinks[head_of(h, r) * p.sinks_at] * kLog2E : nothing();
    float most = sink, total = 0, o[4] = {};
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice)
      most = fmaxf(most, maxima[slice * C.heads + own_head][r]);
    const float base = most == nothing() ? 0 : most;
    // A warp's maximum ignores NaN, so a NaN sum must be its own weight.
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
      const int w = slice * C.heads + own_head;
      const float weight = DeviceMath::exp2(maxima[w][r] - base) * raised;
      const float own = sums[w][r];
      const float4 from =
          *reinterpret_cast<const float4*>(decode_memory + w * kShare + (r * kLine + d) * 4);
      if (maxima[w][r] == nothing() && own == 0) continue;
      const float share_of = own != own ? own : weight;
      total += own * share_of;
      o[0] += from.x * share_of, o[1] += from.y * share_of;
      o[2] += from.z * share_of, o[3] += from.w * share_of;
    }
    total += DeviceMath::exp2(sink - base);
    const float lse = total == 0 ? nothing() : most + ::log2f(total);
    if (p.parts > 1) {
      const float inverse = total == 0 ? 0 : 1 / total;
      const int64_t place = ((int64_t{tile} * p.heads + h) * p.parts + part) * kRows + r;
#pragma unroll
      for (int j = 0; j < 4; ++j) o[j] *= inverse;
      *reinterpret_cast<float4*>(p.part_o + place * S.width + d) = {o[0], o[1], o[2], o[3]};
      if (d == 0) p.part_lse[place] = total != total ? total : lse;
    } else {
      const float inverse = total == 0 ? 0 : (p.v_scale ? *p.v_scale : 1.0f) / total;
      const uint2 words = {pack_pair<S.q>(o[0] * inverse, o[1] * inverse),
                           pack_pair<S.q>(o[2] * inverse, o[3] * inverse)};
      *reinterpret_cast<uint2*>(static_cast<char*>(p.o) +
                                2 * (row_of(r) * p.o_at[0] + head_of(h, r) * p.o_at[1] + d)) =
          words;
      if (d == 0)
        static_cast<float*>(p.lse)[row_of(r) * p.lse_at[0] + head_of(h, r) * p.lse_at[1]] =
            (total != total ? total : lse) * 0.69314718f;
    }
  }
}

/// Joins the parts of paged_decode: one block per row of a tile.
template <PagedTraits S, PagedDecodeConfig C>
__global__ void __launch_bounds__(join_threads(S.width))
    paged_join(const __grid_constant__ PagedParams p) {
  constexpr int kRows = decode_rows(S), kMax = S.ragged || S.group > kRows ? kRows : S.group;
  const uint32_t unit = blockIdx.x / kMax;
  const int r = static_cast<int>(blockIdx.x - unit * kMax);
  const auto tile = static_cast<int32_t>(unit / static_cast<uint32_t>(p.heads));
  const int head = static_cast<int>(unit) - tile * p.heads;
  launch_dependents();
  wait_for_dependencies();
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

  const float descale = p.v_scale ? *p.v_scale : 1.0f;
  const int64_t place = int64_t{unit} * p.parts * kRows + r;
  const JoinedRow row =
      join_parts<S.width>(p.part_lse + place, p.part_o + place * S.width, p.parts, kRows,
                          p.sinks && !blind ? p.sinks[h * p.sinks_at] * kLog2E : nothing());
  const int d = static_cast<int>(threadIdx.x) * 4;
  if (d >= S.width) return;
  const float inverse = row.total == 0 ? 0 : descale / row.total;
  const uint2 words = {pack_pair<S.q>(row.o[0] * inverse, row.o[1] * inverse),
                       pack_pair<S.q>(row.o[2] * inverse, row.o[3] * inverse)};
  *reinterpret_cast<uint2*>(static_cast<char*>(p.o) + 2 * (t * p.o_at[0] + h * p.o_at[1] + d)) =
      words;
  if (d == 0)
    static_cast<float*>(p.lse)[t * p.lse_at[0] + h * p.lse_at[1]] = row.lse() * 0.69314718f;
}

}  // namespace dlblas::attention
