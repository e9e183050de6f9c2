// Sampling and filtering of rows on NVIDIA GPUs: one block per row, which it reads a few times,
// from L2. It finds thresholds digit by digit of the elements' keys, from the top, with histograms
// of counts (top-k) and of masses (top-p) in shared memory; no row is sorted. Sums are integers, so
// the order of additions does not matter. In: SamplingParams. Out: ids, or rows. Flow: call >
// validate > select > compile > [launch].  Read next: core.hpp, sampling_config.hpp.
#pragma once

#include "device/element_f64.cuh"
#include "device/reduce.cuh"
#include "device/row/values.cuh"
#include "device/vec.cuh"
#include "ops/sampling/core.hpp"
#include "ops/sampling/sampling_config.hpp"

namespace dlblas::sampling {

namespace detail {

/// An f32 at a view's offset, or `absent` if the tensor is absent.
__device__ __forceinline__ float load_number(const SamplingParams& p, const int64_t* at, View view,
                                             float absent) {
  if (p.views[view].data == nullptr) return absent;
  return float_from_bits(load_vec<DType::kF32, 1, 1>(p.views[view].data, at[view]).words[0]);
}
__device__ __forceinline__ int64_t load_integer(const SamplingParams& p, const int64_t* at,
                                                View view, bool wide) {
  const void* data = p.views[view].data;
  if (data == nullptr) return 0;
  const int64_t word = at[view] * (wide ? 2 : 1);
  const uint32_t low = load_vec<DType::kF32, 1, 1>(data, word).words[0];
  if (!wide) return static_cast<int32_t>(low);
  const uint32_t high = load_vec<DType::kF32, 1, 1>(data, word + 1).words[0];
  return static_cast<int64_t>(uint64_t{high} << 32 | low);
}

__device__ inline uint64_t warp_total(uint64_t v) {
#pragma unroll
  for (int d = kWarp / 2; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}

template <SamplingTraits S, SamplingConfig C>
struct Row {
  static constexpr int kWarps = C.threads / kWarp;
  struct Shared {
    uint32_t low[kBins], high[kBins];  // of sums of 64 bits: 32-bit atomics are native
    unsigned long long sums[kWarps + 1];
    float most[kWarps + 1];
    unsigned long long found[2];  // a digit, and what lies above it
    int64_t at[kViews];           // the row's first element in each tensor
  };
  const SamplingParams& p;
  Shared& shared;
  int64_t row, start;
  RowRule rule;
  float most, inverse;

  __device__ Row(const SamplingParams& call, Shared& memory, int64_t index)
      : p(call), shared(memory), row(index), most(0), inverse(1) {
    const int view = static_cast<int>(threadIdx.x);
    if (view < kViews && p.views[view].data != nullptr)
      shared.at[view] =
          offset_of(p.views[view],
                    view < (S.form == Form::kSample ? kOfY : kTemperature) ? row * p.width : row);
    __syncthreads();
    start = shared.at[kOfX];
    rule.temperature = load_number(p, shared.at, kTemperature, 1.0f);
    if constexpr (S.count != DType::kAbsent)
      rule.top_k = load_integer(p, shared.at, kTopK, S.count == DType::kI64);
    rule.top_p = load_number(p, shared.at, kTopP, 1.0f);
    rule.min_p = load_number(p, shared.at, kMinP, 0.0f);
  }

  /// f(element, column) for all columns, in no particular order, with 8 elements per thread in
  /// flight.
  template <typename F>
  __device__ __forceinline__ void each(const F& f) const {
    int64_t c = int64_t{threadIdx.x} * S.access;
    if constexpr (S.access > 1) {
      constexpr int kLoads = 8 / S.access;
      constexpr int64_t kStep = int64_t{C.threads} * S.access;
#pragma unroll 1
      for (; c + (kLoads - 1) * kStep < p.width; c += kLoads * kStep) {
        Vec<S.type, S.access> in[kLoads];
#pragma unroll
        for (int i = 0; i < kLoads; ++i)
          in[i] = load_vec<S.type, S.access>(p.views[kOfX].data, start + c + i * kStep);
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          float v[S.access];
          in[i].unpack(v);
#pragma unroll
          for (int j = 0; j < S.access; ++j) f(v[j] + 0.0f, c + i * kStep + j);
        }
      }
    }
#pragma unroll 1
    for (; c < p.width; c += C.threads * S.access) each_of(c, f);
  }
  /// The same for one access.
  template <typename F>
  __device__ __forceinline__ void each_of(int64_t c, const F& f) const {
    if constexpr (S.access == 1) {
      f(values(load_vec<S.type, 1, 1>(p.views[kOfX].data, start + c * p.x_col)).v[0] + 0.0f, c);
    } else {
      float v[S.access];
      load_vec<S.type, S.access>(p.views[kOfX].data, start + c).unpack(v);
#pragma unroll
      for (int i = 0; i < S.access; ++i) f(v[i] + 0.0f, c + i);
    }
  }

  __device__ static uint32_t key(float v) { return key_of(bits_of_float(v)); }
  /// The probability relative to that of the largest element.
  __device__ float part(float v) const {
    if (v == most) return 1;
    if (v == -DeviceMath::infinity()) return 0;
    const float w = S.probs ? v * inverse : DeviceMath::exp((v - most) * inverse);
    return w < 1 ? w : 1;
  }
  __device__ uint64_t mass(float v) const { return __float2ull_rn(part(v) * kWhole); }

  /// Finds the largest element; false if the row holds NaN, +∞ or a negative probability, or no
  /// mass.
  __device__ bool find_most() {
    float mine = -DeviceMath::infinity();
    bool bad = false;
    each([&](float v, int64_t) {
      bad |= v != v || v == DeviceMath::infinity() || (S.probs && v < 0);
      mine = v > mine ? v : mine;
    });
#pragma unroll
    for (int d = kWarp / 2; d > 0; d /= 2) mine = fmaxf(mine, __shfl_xor_sync(~0u, mine, d));
    if (threadIdx.x % kWarp == 0) shared.most[threadIdx.x / kWarp] = mine;
    bad = __syncthreads_or(bad) != 0;
    most = shared.most[0];
#pragma unroll 1
    for (int w = 1; w < kWarps; ++w) most = fmaxf(most, shared.most[w]);
    inverse = 1 / (S.probs ? most : rule.temperature);
    return !bad && (S.probs ? most > 0 : most > -DeviceMath::infinity());
  }

  __device__ uint64_t total(uint64_t mine) {
    mine = warp_total(mine);
    __syncthreads();
    if (threadIdx.x % kWarp == 0) shared.sums[threadIdx.x / kWarp] = mine;
    __syncthreads();
    uint64_t all = 0;
#pragma unroll 1
    for (int w = 0; w < kWarps; ++w) all += shared.sums[w];
    return all;
  }

  __device__ void clear_bins() {
    for (int i = static_cast<int>(threadIdx.x); i < kBins; i += C.threads)
      shared.low[i] = shared.high[i] = 0;
    __syncthreads();
  }
  __device__ __forceinline__ void add_to_bin(uint32_t bin, uint64_t weight) {
    const auto low = static_cast<uint32_t>(weight);
    const uint32_t carry = atomicAdd(&shared.low[bin], low) + low < low;
    const uint32_t high = static_cast<uint32_t>(weight >> 32) + carry;
    if (high != 0) atomicAdd(&shared.high[bin], high);
  }
  /// The first warp finds the bin, from the last one down, with above < wanted <= above + the bin.
  __device__ void find_bin(uint64_t above, uint64_t wanted) {
    __syncthreads();
    if (threadIdx.x < kWarp) {
      const int lane = static_cast<int>(threadIdx.x);
      constexpr int kEach = kBins / kWarp;
      const int first = kBins - 1 - lane * kEach;  // and downwards
      const auto bin = [&](int i) { return uint64_t{shared.high[i]} << 32 | shared.low[i]; };
      uint64_t mine = 0;
#pragma unroll 1
      for (int i = 0; i < kEach; ++i) mine += bin(first - i);
      uint64_t before = mine;  // of lanes below this one
#pragma unroll
      for (int d = 1; d < kWarp; d *= 2) {
        const uint64_t other = __shfl_up_sync(~0u, before, d);
        if (lane >= d) before += other;
      }
      before += above - mine;
#pragma unroll 1
      for (int i = 0; i < kEach; ++i) {
        const uint64_t one = bin(first - i);
        if (before < wanted && wanted <= before + one)
          shared.found[0] = static_cast<unsigned long long>(first - i), shared.found[1] = before;
        before += one;
      }
    }
    __syncthreads();
  }

  /// The first bin of an element, monotone in the elements and chosen to spread them. Logits: by
  /// the distance from the largest, 8 bins per factor of e. Probabilities: by the key's distance,
  /// 32 bins per octave. All elements far below share bin 0.
  __device__ __forceinline__ uint32_t bin_of(float v) const {
    if constexpr (S.probs) {
      const uint32_t away = (key(most) - key(v)) >> 18;
      return away < kBins ? kBins - 1 - away : 0;
    } else {
      const float away = (most - v) * inverse * 8.0f;
      return away < kBins - 1 ? kBins - 1 - static_cast<uint32_t>(away) : 0;
    }
  }

  /// The largest key t, of those no less than `least`, such that elements with keys no less than t
  /// weigh at least `wanted` together; wanted must not exceed the weight of all. First finds a bin,
  /// then the digits of a key among the bin's elements. Digits that all keys of the type share stay
  /// 0.
  template <typename Weight>
  __device__ uint32_t threshold(uint32_t least, uint64_t wanted, const Weight& weight) {
    clear_bins();
    each([&](float v, int64_t) {
      const uint64_t w = key(v) >= least ? weight(v) : 0;
      if (w != 0) add_to_bin(bin_of(v), w);
    });
    find_bin(0, wanted);
    const auto bin = static_cast<uint32_t>(shared.found[0]);
    uint64_t above = shared.found[1];
    uint32_t prefix = 0;
#pragma unroll 1
    for (int shift = 24; shift >= lowest_shift(S.type); shift -= 8) {
      clear_bins();
      each([&](float v, int64_t) {
        const uint32_t k = key(v);
        const bool inside =
            k >= least && bin_of(v) == bin && (shift == 24 || (k ^ prefix) >> (shift + 8) == 0);
        if (inside) add_to_bin(k >> shift & 255u, weight(v));
      });
      find_bin(above, wanted);
      prefix |= static_cast<uint32_t>(shared.found[0]) << shift;
      above = shared.found[1];
    }
    __syncthreads();
    return prefix;
  }

  /// Returns the key below which elements are left out; so are masses below `least_mass`.
  __device__ uint32_t keep(uint64_t& least_mass) {
    uint32_t least = 0;
    if (rule.cuts_k(p.width))
      least = threshold(0, static_cast<uint64_t>(rule.top_k), [](float) { return uint64_t{1}; });
    if (rule.cuts_p()) {
      uint64_t mine = 0;
      each([&](float v, int64_t) { mine += key(v) >= least ? mass(v) : 0; });
      const uint64_t all = total(mine);
      // Elements stay while the mass above them is less than top_p of all: `wanted` is the least
      // integer that is not below that.
      const auto wanted = static_cast<uint64_t>(
          ceil(fmax(static_cast<double>(rule.top_p), 0.0) * static_cast<double>(all)));
      const uint64_t clamped = wanted < 1 ? 1 : wanted > all ? all : wanted;
      least = threshold(least, clamped, [&](float v) { return mass(v); });
    }
    least_mass = 0;
    if (rule.cuts_min()) {
      const float least_part = rule.min_p < 1 ? rule.min_p : 1.0f;
      least_mass = __float2ull_ru(least_part * kWhole);
    }
    return least;
  }

  /// The first column whose running mass exceeds `target`; elements are visited in order.
  template <typename Kept>
  __device__ int64_t find(uint64_t target, const Kept& kept) {
    uint64_t before = 0;
    for (int64_t tile = 0; tile < p.width; tile += C.threads * S.access) {
      const int64_t c = tile + int64_t{threadIdx.x} * S.access;
      uint64_t mine = 0;
      if (c < p.width) each_of(c, [&](float v, int64_t) { mine += kept(v); });
      const int lane = static_cast<int>(threadIdx.x) % kWarp;
      const int warp = static_cast<int>(threadIdx.x) / kWarp;
      uint64_t inclusive = mine;
#pragma unroll
      for (int d = 1; d < kWarp; d *= 2) {
        const uint64_t other = __shfl_up_sync(~0u, inclusive, d);
        if (lane >= d) inclusive += other;
      }
      __syncthreads();
      if (lane == kWarp - 1) shared.sums[warp] = inclusive;
      __syncthreads();
      uint64_t all = 0, mine_before = before + inclusive - mine;
#pragma unroll 1
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp) mine_before += shared.sums[w];
        all += shared.sums[w];
      }
      if (target < before + all) {
        if (mine_before <= target && target < mine_before + mine) {
          int64_t found = -1;
          each_of(c, [&](float v, int64_t column) {
            const uint64_t m = kept(v);
            if (found < 0 && target < mine_before + m) found = column;
            mine_before += m;
          });
          shared.found[0] = static_cast<unsigned long long>(found);
        }
        __syncthreads();
        return static_cast<int64_t>(shared.found[0]);
      }
      before += all;
    }
    return -1;
  }

  __device__ int64_t sample() {
    if (!S.probs && !rule.has_temperature()) return -1;
    if (!find_most()) return -1;
    if (!S.probs && rule.greedy()) return find(0, [&](float v) { return uint64_t{v == most}; });
    uint64_t least_mass;
    const uint32_t least = keep(least_mass);
    const auto kept = [&](float v) {
      const uint64_t m = mass(v);
      return key(v) >= least && m >= least_mass ? m : uint64_t{0};
    };
    uint64_t mine = 0;
    each([&](float v, int64_t) { mine += kept(v); });
    const uint64_t all = total(mine);
    const uint64_t seed = p.seed + static_cast<uint64_t>(load_integer(p, shared.at, kSeeds, true));
    const uint64_t offset =
        p.offset + static_cast<uint64_t>(load_integer(p, shared.at, kOffsets, true));
    const uint64_t place = p.views[kSeeds].data != nullptr ? 0 : static_cast<uint64_t>(row);
    return find(__umul64hi(random_bits(seed, offset, place), all), kept);
  }

  /// y = f(element) for all columns.
  template <typename F>
  __device__ __forceinline__ void put(const F& f) const {
    const int64_t at = shared.at[kOfY];
    void* const to = p.views[kOfY].data;
#pragma unroll 1
    for (int64_t c = int64_t{threadIdx.x} * S.access; c < p.width; c += C.threads * S.access) {
      if constexpr (S.access == 1) {
        each_of(c, [&](float v, int64_t) {
          store_vec<S.type, 1, 1>(to, at + c * p.y_col, rounded<S.type>(Values<1>(f(v))));
        });
      } else {
        float v[S.access];
        load_vec<S.type, S.access>(p.views[kOfX].data, start + c).unpack(v);
#pragma unroll
        for (int i = 0; i < S.access; ++i) v[i] = f(v[i] + 0.0f);
        Vec<S.type, S.access> y;
        y.pack(v);
        store_vec<S.type, S.access>(to, at + c, y);
      }
    }
  }
  __device__ void filter() {
    const bool has_law = find_most();
    uint64_t least_mass = 0;
    const uint32_t least = has_law ? keep(least_mass) : 0;
    const float nothing = !has_law                             ? float_from_bits(0x7fc00000u)
                          : S.probs || S.form == Form::kRenorm ? 0.0f
                                                               : -DeviceMath::infinity();
    const auto stays = [&](float v) {
      return has_law & (key(v) >= least) & (mass(v) >= least_mass);
    };
    if constexpr (S.form == Form::kMask) {
      put([&](float v) { return stays(v) ? v : nothing; });
    } else {
      uint64_t mine = 0;
      each([&](float v, int64_t) { mine += stays(v) ? mass(v) : 0; });
      const auto factor =
          static_cast<float>(static_cast<double>(kWhole) / static_cast<double>(total(mine)));
      put([&](float v) { return stays(v) ? part(v) * factor : nothing; });
    }
  }
};

}  // namespace detail

template <SamplingTraits S, SamplingConfig C>
__global__ void __launch_bounds__(C.threads, 1536 / C.threads)
    sampling(const __grid_constant__ SamplingParams p) {
  using Row = detail::Row<S, C>;
  __shared__ typename Row::Shared shared;
  Row row(p, shared, blockIdx.x);
  if constexpr (S.form == Form::kSample) {
    const int64_t id = row.sample();
    if (threadIdx.x != 0) return;
    Vec<DType::kF32, 1> word;
    word.words[0] = static_cast<uint32_t>(static_cast<int32_t>(id));
    store_vec<DType::kF32, 1, 1>(p.views[kOfY].data, shared.at[kOfY], word);
  } else {
    row.filter();
  }
}

}  // namespace dlblas::sampling
