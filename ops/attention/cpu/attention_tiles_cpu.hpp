// Rows of bf16 queries over blocks of keys, by AMX tiles: host code that attention over unpaged and
// over paged keys shares. In: rows, blocks. Out: sums, from which the caller computes o and lse.
// Blocks begin at multiples of kTileBlock keys, so that a row has the same bits in any batch.
// Read next: attention_tiles.hpp, attention_tiles_cpu.cpp (calls it).
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/attention/attention_estimate.hpp"
#include "ops/attention/cpu/attention_tiles.hpp"

namespace dlblas::attention {

struct TileLevel {
  AttentionTiles (*code)();
};
#if defined(DLBLAS_X86)
inline constexpr TileLevel kTileLevel = {avx512::attention_tiles};

/// cpu_amx, with the settings of `base`.
inline std::vector<Implementation> tile_level(const Implementation& base,
                                              const void* op = nullptr) {
  return kernels::per_level(base, "cpu_",
                            {{Isa::kAvx512, source_hash<"ops/attention/cpu/attention_amx.cpp">(),
                              &kTileLevel, nullptr, kernels::CpuUnit::kAmx, true}},
                            op);
}
#endif

/// Sizes of a thread's buffers; widths before padding.
struct TileSizes {
  std::int64_t rows, d, dv;  // rows of a task at most

  /// As many rows as leave their blocks of keys room in an L2 cache of 2 MiB: 512 rows of 128
  /// columns take 0.4 MiB, and a block 128 KiB, which is packed once for all of them.
  static TileSizes of(std::int64_t d, std::int64_t dv) {
    constexpr std::int64_t kElements = 131072, kMax = 1024;
    const std::int64_t wide = tile_padded(std::max<std::int64_t>({1, d, dv}));
    const std::int64_t rows = kElements / wide / kTileQueries * kTileQueries;
    return {std::clamp(rows, kTileQueries, kMax), d, dv};
  }
  std::int64_t floats() const {
    const std::int64_t wide = tile_padded(d), wide_v = tile_padded(dv);
    return rows * (wide / 2 + wide_v + 2 + 2 + 4 + 1) + 16 +
           kTileBlock / kTileMultiple * tile_panel(d) +
           wide_v / kTileMultiple * tile_panel(kTileBlock) + kTileQueries * kTilePitch +
           kTileBlock * (2 + wide_v);
  }
  std::size_t bytes() const { return static_cast<std::size_t>(4 * (floats() + 15) / 64 * 64); }
};

/// Rows per task, few enough that all threads finish at about the same time.
inline std::int64_t task_rows(std::int64_t all, std::int64_t threads, const TileSizes& sizes) {
  const std::int64_t share = all / (4 * threads);
  return std::clamp((share + kTileQueries - 1) / kTileQueries * kTileQueries, kTileQueries,
                    sizes.rows);
}

/// Runs each(slot, tasks) on every thread; tasks(f) calls f(i) until all of [0, count) are taken.
template <typename Each>
void run_tasks(const Context& context, std::int64_t slots, std::int64_t count, const Each& each) {
  std::atomic<std::int64_t> next{0};
  context.run(0, slots, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = begin; slot < end; ++slot)
      each(slot, [&](const auto& f) {
        for (std::int64_t i; (i = next.fetch_add(1)) < count;) f(i);
      });
  });
}

/// Prefetches a row of bf16.
inline void fetch_row(const std::uint16_t* row, std::int64_t width) {
  constexpr std::int64_t kLine = 32;
  for (std::int64_t c = 0; c < width; c += kLine) __builtin_prefetch(row + c);
}

/// Granite Rapids, one thread, November 2026: kScore, the cost of a score apart from its products,
/// from 512 × 512, 32 heads over 8, D 64 and 128; kPacking from 1 to 16 × 2048.
inline double tiles_ms(const Query& q, const AttentionSizes& s, const TileSizes& sizes) {
  constexpr double kProducts = 11.6, kScore = 28;  // of the level's f32 operations
  constexpr double kPacking = 0.85;
  constexpr double kHalf = kTileQueries / 2;
  const double tiles = std::ceil(s.rows / s.heads / kHalf) * kHalf * s.heads;
  const double times = std::max(1.0, s.rows / s.heads / static_cast<double>(sizes.rows)) * s.heads;
  const double work = tiles * s.keys * (2 * s.columns / kProducts + kScore);
  const double threads = std::max<double>(1, q.problem.threads);
  return 1e3 *
         (launch_s(q.device) +
          (work / kernels::rates_of(q).f32_flops + times * packing_s(q, s, kPacking)) / threads);
}

class TileAttention {
 public:
  /// `memory` has sizes.bytes() bytes.
  TileAttention(const AttentionTiles& code, const TileSizes& sizes, void* memory)
      : code_(code),
        d_(tile_padded(sizes.d)),
        dv_(tile_padded(sizes.dv)),
        width_(sizes.d),
        width_v_(sizes.dv) {
    auto* at = static_cast<float*>(memory);
    const auto take = [&](std::int64_t count) { return (at += count) - count; };
    q_ = take(sizes.rows * d_ / 2), o_ = take(sizes.rows * dv_);
    k_ = take(kTileBlock / kTileMultiple * tile_panel(sizes.d));
    v_ = take(dv_ / kTileMultiple * tile_panel(kTileBlock));
    scores_ = take(kTileQueries * kTilePitch);
    wild_rows_ = take(kTileBlock * dv_), bias_ = take(kTileBlock);
    most_ = take(sizes.rows), sum_ = take(sizes.rows);
    from_ = reinterpret_cast<std::int32_t*>(take(sizes.rows));
    to_ = reinterpret_cast<std::int32_t*>(take(sizes.rows));
    wild_ = reinterpret_cast<std::int32_t*>(take(kTileBlock));
    seen_ = reinterpret_cast<Keys*>(take(4 * sizes.rows));
    begun_ = reinterpret_cast<bool*>(take(sizes.rows));
  }

  void begin(std::int64_t rows) {
    rows_ = rows, tiles_ = (rows + kTileQueries - 1) / kTileQueries;
    const std::int64_t whole = tiles_ * kTileQueries;
    std::fill_n(most_, whole, -std::numeric_limits<float>::infinity());
    std::fill_n(sum_, whole, 0.0f);
    std::fill_n(begun_, tiles_, false);
    std::fill(seen_ + rows, seen_ + whole, Keys{0, 0});
    std::fill(q_ + rows * d_ / 2, q_ + whole * d_ / 2, 0.0f);
    all_ = {std::numeric_limits<std::int64_t>::max(), 0};
  }
  /// Adds row r of q, and the keys that it sees.
  void query(std::int64_t r, const void* from, std::int64_t step, const Keys& seen) {
    code_.pack_query(from, step, width_, q_ + r * d_ / 2);
    seen_[r] = seen;
    if (seen.first < seen.end)
      all_ = {std::min(all_.first, seen.first), std::max(all_.end, seen.end)};
  }
  /// Adds a score without a value to a row that has processed no keys yet.
  void sink(std::int64_t r, float score) {
    const double wide = double{score} * kLog2E;
    most_[r] = static_cast<float>(wide);
    sum_[r] = static_cast<float>(std::exp2(wide - double{most_[r]}));
  }
  /// Where the first block begins, and where the last ends.
  Keys keys() const { return {all_.first / kTileBlock * kTileBlock, all_.end}; }
  std::int64_t block_of(std::int64_t key) const { return std::min(kTileBlock, all_.end - key); }

  /// Processes keys [key, key + block_of(key)). bias(row, keys, to) writes what is added to scores.
  struct NoBias {
    void operator()(std::int64_t, const Keys&, float*) const {}
  };
  template <typename Bias = NoBias>
  void block(std::int64_t key, const TileSource& k, const TileSource& v, float scale, float cap,
             const Bias* bias = nullptr) {
    const std::int64_t count = block_of(key);
    code_.pack_keys(k, count, width_, k_);
    TileBlock b{};
    b.num_wild = code_.pack_values(v, count, width_v_, v_, wild_, wild_rows_);
    for (std::int64_t r = 0; r < tiles_ * kTileQueries; ++r) {
      from_[r] =
          static_cast<std::int32_t>(std::clamp<std::int64_t>(seen_[r].first - key, 0, count));
      to_[r] = static_cast<std::int32_t>(std::clamp<std::int64_t>(seen_[r].end - key, 0, count));
    }
    b.rows = rows_, b.d = d_, b.dv = dv_, b.count = count;
    b.q = q_, b.k = k_, b.v = v_, b.from = from_, b.to = to_;
    b.o = o_, b.most = most_, b.sum = sum_, b.begun = begun_, b.scores = scores_;
    b.scale = scale, b.cap = cap, b.wild = wild_, b.wild_rows = wild_rows_;
    struct Added {
      const TileAttention* of;
      const Bias* bias;
      std::int64_t key;
    } const added{this, bias, key};
    b.self = &added;
    if (bias)
      b.bias = [](const void* self, std::int64_t r) -> const float* {
        const auto& a = *static_cast<const Added*>(self);
        (*a.bias)(r, Keys{a.key + a.of->from_[r], a.key + a.of->to_[r]}, a.of->bias_);
        return a.of->bias_;
      };
    code_.meet(b);
  }

  /// Writes row r of o times `factor`, with elements `step` apart; returns its lse.
  float finish(std::int64_t r, float factor, void* to, std::int64_t step) const {
    const bool none = sum_[r] == 0, begun = begun_[r / kTileQueries];
    float* const row = o_ + r * dv_;
    if (!begun) std::fill_n(row, dv_, 0.0f);
    const float times = none ? 0 : factor / sum_[r];
    if (step == 1 || width_v_ <= 1) {
      code_.finish(row, width_v_, times, to);
    } else {
      code_.finish(row, width_v_, times, scores_);
      const auto* const made = reinterpret_cast<const std::uint16_t*>(scores_);
      for (std::int64_t c = 0; c < width_v_; ++c)
        static_cast<std::uint16_t*>(to)[c * step] = made[c];
    }
    if (none) return -std::numeric_limits<float>::infinity();
    return static_cast<float>(double{most_[r]} / kLog2E + std::log(double{sum_[r]}));
  }

 private:
  static constexpr double kLog2E = 1.44269504088896340736;
  const AttentionTiles& code_;
  std::int64_t d_, dv_, width_, width_v_, rows_ = 0, tiles_ = 0;
  float *q_, *o_, *k_, *v_, *scores_, *wild_rows_, *bias_, *most_, *sum_;
  std::int32_t *from_, *to_, *wild_;
  Keys* seen_;
  Keys all_{};
  bool* begun_;
};

}  // namespace dlblas::attention
