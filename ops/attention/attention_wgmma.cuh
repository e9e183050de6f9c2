// Attention by Hopper's WGMMA: f16 and bf16, heads of 64, 128 or 256, rows at multiples of 16
// bytes. A block has 128 rows of a head: two warpgroups multiply, 64 rows each, and one thread
// copies, through rings of K and V. Blocks of keys are met last to first. Those that every row sees
// whole are overlapped: scores of one beside P·V of the one before. The others, at the edges of
// masks and sequences, go alone, and are looked through for values of V that are not finite, as in
// attention_mma.cuh. In: AttentionWgmmaParams. Out: o and lse. Numerics: as attention_mma.cuh.
// Deterministic. Flow: call > validate > select > compile > [launch].
// Read next: attention_tile.cuh, device/wgmma.cuh.
#pragma once

#include "device/shared.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "ops/attention/attention_finite.cuh"
#include "ops/attention/attention_tile.cuh"

namespace dlblas::attention {

namespace wgmma_detail {

inline constexpr int kGroups = 2, kRows = kGroups * 64, kThreads = (kGroups + 1) * 128;
inline constexpr int kConsumers = kGroups * 128;

__device__ __forceinline__ void load_box(void* to, const TensorMap& map, Mbarrier& full,
                                         int32_t column, int32_t row, int32_t head, int32_t batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&full)), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

/// Barriers of the multiplying threads alone.
__device__ __forceinline__ void consumers_wait() {
  asm volatile("barrier.cta.sync 1, 256;" ::: "memory");
}
__device__ __forceinline__ bool consumers_any(bool mine) {
  uint32_t any;
  asm volatile(
      "{\n\t.reg .pred p, q;\n\tsetp.ne.u32 p, %1, 0;\n\t"
      "barrier.cta.red.or.pred q, 1, 256, p;\n\tselp.u32 %0, 1, 0, q;\n\t}"
      : "=r"(any)
      : "r"(static_cast<uint32_t>(mine))
      : "memory");
  return any != 0;
}

template <AttentionTraits S, AttentionWgmmaConfig C>
struct Shared {
  static constexpr int kQuery = kRows * S.d * 2, kBlock = C.keys * S.d * 2;
  unsigned char *q, *k, *v;  // each tile: d / 64 columns of rows of 128 bytes
  Mbarrier *q_full, *k_full, *k_empty, *v_full, *v_empty;

  __device__ __forceinline__ explicit Shared(unsigned char* raw) {
    q = raw + (1024 - shared_address(raw) % 1024) % 1024;
    k = q + kQuery;
    v = k + C.stages * kBlock;
    q_full = reinterpret_cast<Mbarrier*>(v + C.stages * kBlock);
    k_full = q_full + 1, k_empty = k_full + C.stages;
    v_full = k_empty + C.stages, v_empty = v_full + C.stages;
  }
  __device__ __forceinline__ void start() const {
    q_full->init(1);
    for (int s = 0; s < C.stages; ++s) {
      k_full[s].init(1), v_full[s].init(1);
      k_empty[s].init(kConsumers / 32), v_empty[s].init(kConsumers / 32);
    }
    fence_mbarrier_init();
  }
};
__device__ __forceinline__ void release(Mbarrier& empty) {
  if (threadIdx.x % 32 == 0) empty.arrive();
}

/// The copying thread: K(last), Q, then K one block ahead of V.
template <AttentionTraits S, AttentionWgmmaConfig C>
__device__ __forceinline__ void produce(const AttentionWgmmaParams& g, const Shared<S, C>& shared,
                                        const Tile& t, int32_t begin, int32_t end) {
  const int32_t batch = S.packed_sequences ? 0 : t.batch, kv_head = t.head / g.p.group;
  RingPlace<C.stages> k_at, v_at;
  const auto load = [&](const TensorMap& map, unsigned char* ring, Mbarrier* full, Mbarrier* empty,
                        RingPlace<C.stages>& at, int32_t n) {
    empty[at.stage].wait(at.parity ^ 1);
    full[at.stage].arrive_expect_tx(Shared<S, C>::kBlock);
    unsigned char* to = ring + at.stage * Shared<S, C>::kBlock;
#pragma unroll
    for (int c = 0; c < S.d / 64; ++c)
      load_box(to + c * C.keys * 128, map, full[at.stage], c * 64, t.k_from + n * C.keys, kv_head,
               batch);
    at.advance();
  };
  load(g.k, shared.k, shared.k_full, shared.k_empty, k_at, end - 1);
  shared.q_full->arrive_expect_tx(Shared<S, C>::kQuery);
#pragma unroll
  for (int c = 0; c < S.d / 64; ++c)
    load_box(shared.q + c * kRows * 128, g.q, *shared.q_full, c * 64, t.q_from + t.first, t.head,
             batch);
#pragma unroll 1
  for (int32_t n = end - 2; n >= begin; --n) {
    load(g.k, shared.k, shared.k_full, shared.k_empty, k_at, n);
    load(g.v, shared.v, shared.v_full, shared.v_empty, v_at, n + 1);
  }
  load(g.v, shared.v, shared.v_full, shared.v_empty, v_at, begin);
}

template <AttentionTraits S, AttentionWgmmaConfig C>
struct Consumer {
  static constexpr WgmmaInput kInput =
      S.type == DType::kBF16 ? WgmmaInput::kBF16 : WgmmaInput::kF16;
  static constexpr int kN = C.keys, kD = S.d, kBlock = Shared<S, C>::kBlock;

  const AttentionParams& p;
  const Shared<S, C>& shared;
  int32_t column;  // of this thread's first keys in a block
  uint64_t q, k, v;
  RingPlace<C.stages> k_at, v_at;
  KeyRange seen[2];
  float factor, most[2], sum[2], rescale[2];

  __device__ __forceinline__ void scores(float (&s)[kN / 2]) {
    const uint64_t block = wgmma_advance(k, k_at.stage * kBlock);
#pragma unroll
    for (int c = 0; c < kD / 64; ++c)
      wgmma_row<kN, kInput>(s, wgmma_advance(q, c * kRows * 128),
                            wgmma_advance(block, c * kN * 128), c > 0);
    wgmma_commit();
  }
  __device__ __forceinline__ void values(float (&o)[kD / 2], const uint32_t (&a)[kN / 4]) {
    const uint64_t block = wgmma_advance(v, v_at.stage * kBlock);
#pragma unroll
    for (int i = 0; i < kN / 16; ++i)
      wgmma_from_registers<kD, kInput>(o, a + 4 * i, wgmma_advance(block, i * 2048));
    wgmma_commit();
  }
  __device__ __forceinline__ void pack(uint32_t (&a)[kN / 4], const float (&s)[kN / 2]) {
#pragma unroll
    for (int i = 0; i < kN / 4; ++i) a[i] = pack_pair<S.type>(s[2 * i], s[2 * i + 1]);
  }

  /// Scores of block n become numerators.
  template <bool kClean>
  __device__ __forceinline__ void softmax(float (&s)[kN / 2], int32_t n) {
    const int32_t first_key = n * kN + column;
    if (kStaged<S> || p.scale <= 0) {
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) s[i] = score<S>(p, s[i], 0, 0);
    }
    if constexpr (!kClean) {
      const int32_t end0 = seen[0].end - first_key, end1 = seen[1].end - first_key;
      const int32_t from0 = seen[0].first - first_key, from1 = seen[1].first - first_key;
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) {
        const int32_t key = i / 4 * 8 + (i & 1);
        const bool there = key < (i & 2 ? end1 : end0) && key >= (i & 2 ? from1 : from0);
        s[i] = there ? s[i] : minus_infinity();
      }
    }
    float peaks[2][2];
#pragma unroll
    for (int r = 0; r < 2; ++r) peaks[r][0] = s[2 * r], peaks[r][1] = s[2 * r + 1];
#pragma unroll
    for (int i = 4; i < kN / 2; ++i)
      peaks[i >> 1 & 1][i & 1] = fmaxf(peaks[i >> 1 & 1][i & 1], s[i]);
    float base[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float peak = fmaxf(peaks[r][0], peaks[r][1]);
      peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, 1));
      peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, 2));
      peak = fmaxf(peak, most[r]);
      const ExponentBase by = exponent_base(peak, factor);
      if (by.far) {
#pragma unroll
        for (int i = 0; i < kN / 2; i += 4) s[i + 2 * r] -= peak, s[i + 2 * r + 1] -= peak;
      }
      base[r] = by.base;
      rescale[r] = DeviceMath::exp2(exponent_of(by, most[r], peak, factor));
      most[r] = peak;
    }
    float part[2][2] = {{0, 0}, {0, 0}};
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) {
      s[i] = DeviceMath::exp2(fmaf(s[i], factor, -base[i >> 1 & 1]));
      part[i >> 1 & 1][i & 1] += s[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) sum[r] = fmaf(sum[r], rescale[r], part[r][0] + part[r][1]);
  }
  __device__ __forceinline__ void rescale_sums(float (&o)[kD / 2]) {
#pragma unroll
    for (int i = 0; i < kD / 2; ++i) o[i] *= rescale[i >> 1 & 1];
  }
  /// Keeps the exponentials before a wait that follows: left alone, ptxas (13.0) moves the wait for
  /// P·V up to right behind the maximum. A branch that the sums decide (never taken) around a warp
  /// barrier ends its block of instructions here.
  __device__ __forceinline__ void hold() const {
    asm volatile(
        "{\n\t.reg .pred never;\n\tsetp.lt.f32 never, %0, 0f00000000;\n\t"
        "@never bra.uni over;\n\tbar.warp.sync 0xffffffff;\n\tover:\n\t}" ::"f"(sum[0] + sum[1])
        : "memory");
  }

  /// Where two values of V lie.
  __device__ __forceinline__ uint32_t* word(int32_t key, int32_t at) const {
    unsigned char* tile = shared.v + v_at.stage * kBlock + at / 64 * kN * 128;
    return reinterpret_cast<uint32_t*>(tile + swizzle_128(key * 128 + at % 64 * 2));
  }
  /// Values of V that are not finite go into o by themselves, and become 0 in the block.
  __device__ __forceinline__ void take_out(float (&o)[kD / 2], int32_t n, int32_t thread) {
    constexpr int kWords = kD / 2;
    bool found = false;
    for (int i = thread; i < kN * kWords; i += kConsumers)
      found |= not_finite<S.type>(*word(i / kWords, i % kWords * 2));
    if (!consumers_any(found)) return;
#pragma unroll 1
    for (int key = 0; key < kN; ++key) {
      const int32_t at = n * kN + key;
      // Opaque, or the compiler keeps an address for each i.
      uint32_t row = shared_address(shared.v + v_at.stage * kBlock) + key * 128 + column * 2;
      uint32_t chunk = key & 7;
      asm volatile("" : "+r"(row), "+r"(chunk));
#pragma unroll
      for (int i = 0; i < kD / 8; ++i) {
        const uint32_t w = load_shared_word(row + i / 8 * kN * 128 + ((i % 8 ^ chunk) << 4));
        if (w == finite_part<S.type>(w)) continue;
        const FloatPair x = unpack_pair<S.type>(w ^ finite_part<S.type>(w));
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const bool there = at >= seen[r].first && at < seen[r].end;
          o[4 * i + 2 * r] += there ? x.low : 0.0f;
          o[4 * i + 2 * r + 1] += there ? x.high : 0.0f;
        }
      }
    }
    consumers_wait();
    for (int i = thread; i < kN * kWords; i += kConsumers) {
      uint32_t* w = word(i / kWords, i % kWords * 2);
      *w = finite_part<S.type>(*w);
    }
    fence_async_shared();
    consumers_wait();
  }

  /// A block that some row does not see whole, nothing beside it.
  __device__ __forceinline__ void meet_alone(float (&o)[kD / 2], float (&s)[kN / 2],
                                             uint32_t (&a)[kN / 4], int32_t n, int32_t thread) {
    shared.k_full[k_at.stage].wait(k_at.parity);
    wgmma_fence();
    scores(s);
    wgmma_wait<0>();
    wgmma_pin(s);
    release(shared.k_empty[k_at.stage]);
    k_at.advance();
    softmax<false>(s, n);
    rescale_sums(o);
    pack(a, s);
    shared.v_full[v_at.stage].wait(v_at.parity);
    take_out(o, n, thread);
    wgmma_fence();
    values(o, a);
    wgmma_wait<0>();
    wgmma_pin(o);
    release(shared.v_empty[v_at.stage]);
    v_at.advance();
  }

  /// Blocks [begin, end), each seen whole, last to first.
  __device__ __forceinline__ void meet(float (&o)[kD / 2], float (&s)[kN / 2],
                                       uint32_t (&a)[kN / 4], int32_t begin, int32_t end) {
    shared.k_full[k_at.stage].wait(k_at.parity);
    wgmma_fence();
    scores(s);
    wgmma_wait<0>();
    wgmma_pin(s);
    release(shared.k_empty[k_at.stage]);
    k_at.advance();
    softmax<true>(s, end - 1);
    rescale_sums(o);
    pack(a, s);
#pragma unroll 1
    for (int32_t n = end - 2; n >= begin; --n) {
      shared.k_full[k_at.stage].wait(k_at.parity);
      wgmma_fence();
      scores(s);
      shared.v_full[v_at.stage].wait(v_at.parity);
      wgmma_fence();
      values(o, a);
      wgmma_wait<1>();
      wgmma_pin(s);
      release(shared.k_empty[k_at.stage]);
      k_at.advance();
      softmax<true>(s, n);
      hold();
      wgmma_wait<0>();
      wgmma_pin(o);
      rescale_sums(o);
      release(shared.v_empty[v_at.stage]);
      v_at.advance();
      pack(a, s);
    }
    shared.v_full[v_at.stage].wait(v_at.parity);
    wgmma_fence();
    values(o, a);
    wgmma_wait<0>();
    wgmma_pin(o);
    release(shared.v_empty[v_at.stage]);
    v_at.advance();
  }
};

template <AttentionTraits S, AttentionWgmmaConfig C>
__device__ __forceinline__ void consume(const AttentionWgmmaParams& g, const Shared<S, C>& shared,
                                        const Tile& t, int32_t rows, int32_t begin, int32_t end,
                                        int32_t clean_from, int32_t clean_to, int32_t group) {
  constexpr int kD = S.d;
  const AttentionParams& p = g.p;
  const int32_t thread = static_cast<int32_t>(threadIdx.x) - 128, lane = thread % 32;
  const int32_t own = group * 64 + thread % 128 / 32 * 16 + lane / 4;
  Consumer<S, C> c{p,
                   shared,
                   lane % 4 * 2,
                   wgmma_tile_k(shared.q + group * 64 * 128),
                   wgmma_tile_k(shared.k),
                   wgmma_tile_mn(shared.v, C.keys * 128)};
  c.factor = factor_of<S>(p);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    c.seen[r] = visible(p, t, t.first + min(own + 8 * r, rows - 1));
    c.most[r] = minus_infinity(), c.sum[r] = 0;
  }
  float o[kD / 2], s[C.keys / 2];
  uint32_t a[C.keys / 4];
#pragma unroll
  for (float& x : o) x = 0;
  if (begin < end) shared.q_full->wait(0);
  // Uniform to the compiler: loop counts and descriptors stay in uniform registers.
  const int32_t from = __reduce_min_sync(0xffffffffu, max(begin, min(clean_from, end)));
  const int32_t to = __reduce_min_sync(0xffffffffu, max(from, min(clean_to, end)));
  const int32_t first = __reduce_min_sync(0xffffffffu, begin);
  int32_t n = __reduce_min_sync(0xffffffffu, end) - 1;
#pragma unroll 1
  for (int part = 0; part < 2; ++part) {
    const int32_t last = part == 0 ? to : first;
#pragma unroll 1
    for (; n >= last; --n) c.meet_alone(o, s, a, n, thread);
    if (part == 0 && from < to) {
      c.meet(o, s, a, from, to);
      n = from - 1;
    }
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float all = c.sum[r];
    all += __shfl_xor_sync(0xffffffffu, all, 1);
    all += __shfl_xor_sync(0xffffffffu, all, 2);
    const float inverse = all == 0 ? 0.0f : 1 / all;
    const int32_t row = own + 8 * r;
    const int64_t at = t.q_from + static_cast<int64_t>(t.first) + row;
    const int64_t batch = S.packed_sequences ? 0 : t.batch;
    uint16_t* const out = static_cast<uint16_t*>(p.o) + batch * p.o_at[0] + at * p.o_at[1] +
                          t.head * p.o_at[2] + lane % 4 * 8;
#pragma unroll
    for (int i = 0; i < kD / 8; i += 4) {
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        words[j] = pack_pair<S.type>(o[4 * (i + j) + 2 * r] * inverse,
                                     o[4 * (i + j) + 2 * r + 1] * inverse);
      gather_quad(words);
      if (row < rows)
        *reinterpret_cast<uint4*>(out + i * 8) = {words[0], words[1], words[2], words[3]};
    }
    if (row < rows && lane % 4 == 0)
      store_lse(p, t, t.head, at,
                all == 0 ? minus_infinity() : fmaf(c.most[r], c.factor, log2f(all)) * 0.693147181f);
  }
}

}  // namespace wgmma_detail

template <AttentionTraits S, AttentionWgmmaConfig C>
__global__ void __launch_bounds__(wgmma_detail::kThreads, 1)
    attention_wgmma(const __grid_constant__ AttentionWgmmaParams g) {
  using namespace wgmma_detail;
  static_assert(S.d == S.dv && S.bias == DType::kAbsent && C.keys % 16 == 0);
  extern __shared__ unsigned char raw[];
  const Shared<S, C> shared(raw);
  const AttentionParams& p = g.p;
  const Tile t = tile_at<S.packed_sequences, kRows>(p, blockIdx.x);
  if (t.empty(p)) return;
  if (threadIdx.x == 0) {
    tma_prefetch_map(g.q), tma_prefetch_map(g.k), tma_prefetch_map(g.v);
    shared.start();
  }
  __syncthreads();
  const int32_t rows = min(kRows, t.q_rows - t.first);
  const KeyRange lowest = visible(p, t, t.first), highest = visible(p, t, t.first + rows - 1);
  const int32_t begin = lowest.first / C.keys, end = (highest.end + C.keys - 1) / C.keys;
  const int32_t group = __shfl_sync(0xffffffffu, static_cast<int32_t>(threadIdx.x) / 128, 0);
  if (group == 0) {
    release_registers<24>();
    if (threadIdx.x == 0 && begin < end) produce<S, C>(g, shared, t, begin, end);
  } else {
    take_registers<240>();
    consume<S, C>(g, shared, t, rows, begin, end, (highest.first + C.keys - 1) / C.keys,
                  lowest.end / C.keys, group - 1);
  }
}

}  // namespace dlblas::attention
