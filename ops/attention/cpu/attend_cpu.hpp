// What the CPU implementations of attention over paged caches share: queries against blocks of keys
// with an online softmax, and one implementation per instruction-set level. Blocks begin at
// multiples of kBlock keys, so that a row has the same bits in any batch.
// Read next: attend_config.hpp, paged_attention_lse/paged_attention_lse_cpu.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/element.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/attention/attend_config.hpp"

namespace dlblas::attention {

struct AttendLevel {
  AttendPasses (*passes)();
};
inline constexpr AttendLevel kBaseline = {baseline::attend_passes};
#if defined(__x86_64__)
inline constexpr AttendLevel kAvx2 = {avx2::attend_passes};
inline constexpr AttendLevel kAvx512 = {avx512::attend_passes};
#endif

/// `base` at each level.
inline std::vector<Implementation> attend_levels(const Implementation& base) {
  return kernels::per_level(base, "cpu_", {
#if defined(__x86_64__)
    {Isa::kAvx512, source_hash<"ops/attention/cpu/attend_avx512.cpp">(), &kAvx512},
        {Isa::kAvx2, source_hash<"ops/attention/cpu/attend_avx2.cpp">(), &kAvx2},
#endif
        {Isa::kBaseline, source_hash<"ops/attention/cpu/attend_baseline.cpp">(), &kBaseline},
  });
}

/// Reads elements at one stride, from element `first` of a tensor on.
inline void read_line(const AttendPasses& passes, const TensorView& t, std::int64_t first,
                      std::int64_t stride, std::int64_t count, float* to) {
  if (stride == 1 && !is_f8(t.dtype))
    return passes.widen(t.dtype, static_cast<const char*>(t.data) + first * size_of(t.dtype), count,
                        to);
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = static_cast<float>(load_element(t, first + i * stride));
}
inline void write_line(const AttendPasses& passes, const float* from, const TensorView& t,
                       std::int64_t first, std::int64_t stride, std::int64_t count) {
  if (stride == 1)
    return passes.narrow(t.dtype, from, count,
                         static_cast<char*>(t.data) + first * size_of(t.dtype));
  for (std::int64_t i = 0; i < count; ++i)
    store_element(t, first + i * stride, static_cast<double>(from[i]));
}

/// Rows of a cache: each key has an element offset; columns have one stride.
struct CacheRows {
  const TensorView* cache;
  std::int64_t stride, width;
};

/// Some queries against blocks of keys.
class Attending {
 public:
  static constexpr std::int64_t kBlock = 64;

  Attending(const AttendPasses& passes, std::int64_t queries, std::int64_t depth,
            std::int64_t width)
      : passes_(passes),
        queries_(queries),
        depth_(depth),
        q_(sized(queries * depth)),
        o_(sized(queries * width)),
        scores_(sized(queries * kBlock)),
        scales_(sized(queries)),
        most_(scales_),
        sums_(scales_) {}

  float* query(std::int64_t m) { return q_.data() + m * depth_; }
  const float* output(std::int64_t m, std::int64_t width) const { return o_.data() + m * width; }
  void begin(std::int64_t m, bool has_sink, float sink) {
    most_[m] = has_sink ? sink : -std::numeric_limits<float>::infinity();
    sums_[m] = has_sink ? 1 : 0;
  }
  void clear() { std::fill(o_.begin(), o_.end(), 0.0f); }

  /// Processes a block of keys from `first` on, at offsets `keys` and `values`; query m sees those
  /// in sight(m) = {from, to}.
  template <typename Sight>
  void block(std::int64_t first, const std::vector<std::int64_t>& keys, const CacheRows& k,
             const std::vector<std::int64_t>& values, const CacheRows& v, float factor, float cap,
             const Sight& sight) {
    block(first, rows(keys, k, wide_keys_), rows(values, v, wide_values_), factor, cap, sight);
  }
  template <typename Sight>
  void block(std::int64_t first, const AttendRows& keys, const AttendRows& values, float factor,
             float cap, const Sight& sight) {
    const std::int64_t count = keys.count;
    passes_.scores(keys, q_.data(), queries_, scores_.data(), kBlock);
    for (std::int64_t m = 0; m < queries_; ++m) {
      float* const scores = scores_.data() + m * kBlock;
      const auto [from, to] = sight(m);
      const std::int64_t begin = std::clamp<std::int64_t>(from - first, 0, count);
      const std::int64_t end = std::clamp<std::int64_t>(to - first, begin, count);
      scales_[m] = 1;
      if (begin < end)
        scales_[m] = passes_.powers(scores + begin, end - begin, factor, cap, &most_[m], &sums_[m]);
      // Unseen keys get a weight of 0, and mix() skips their values: 0 times NaN is NaN.
      std::fill(scores, scores + begin, 0.0f);
      std::fill(scores + end, scores + count, 0.0f);
      if (m > 0 && same_) same_ = begin == begin_ && end == end_;
      if (m == 0) same_ = true;
      begin_ = begin, end_ = end;
    }
    mix(values, sight, first, count);
  }
  /// Multiplies o of query m by `scale` over the sum; returns the logarithm of the sum.
  float finish(std::int64_t m, std::int64_t width, float scale) {
    float* const o = o_.data() + m * width;
    const float factor = sums_[m] == 0 ? 0 : scale / sums_[m];
    for (std::int64_t d = 0; d < width; ++d) o[d] *= factor;
    return sums_[m] == 0 ? -std::numeric_limits<float>::infinity() : most_[m] + std::log(sums_[m]);
  }

 private:
  static std::vector<float> sized(std::int64_t n) {
    return std::vector<float>(static_cast<std::size_t>(n));
  }
  /// If all queries see the same keys they go together, else one by one.
  template <typename Sight>
  void mix(const AttendRows& all, const Sight& sight, std::int64_t first, std::int64_t count) {
    const std::int64_t width = all.width;
    const auto part = [&](std::int64_t m, std::int64_t queries, std::int64_t begin,
                          std::int64_t end) {
      const AttendRows some = {all.rows + begin, end - begin, width, all.type};
      passes_.mix(some, scores_.data() + m * kBlock + begin, kBlock, scales_.data() + m, queries,
                  o_.data() + m * width);
    };
    if (same_) return part(0, queries_, begin_, end_);
    for (std::int64_t m = 0; m < queries_; ++m) {
      const auto [from, to] = sight(m);
      const std::int64_t begin = std::clamp<std::int64_t>(from - first, 0, count);
      part(m, 1, begin, std::clamp<std::int64_t>(to - first, begin, count));
    }
  }
  /// Contiguous rows in a type that the passes read: pointers into the cache, or into `wide`.
  AttendRows rows(const std::vector<std::int64_t>& offsets, const CacheRows& from,
                  std::vector<float>& wide) {
    const TensorView& t = *from.cache;
    const auto count = static_cast<std::int64_t>(offsets.size());
    std::vector<const void*>& pointers = &wide == &wide_keys_ ? key_rows_ : value_rows_;
    pointers.resize(offsets.size());
    if (from.stride == 1 && !is_f8(t.dtype)) {
      for (std::int64_t j = 0; j < count; ++j)
        pointers[j] = static_cast<const char*>(t.data) + offsets[j] * size_of(t.dtype);
      return {pointers.data(), count, from.width, t.dtype};
    }
    wide.resize(static_cast<std::size_t>(kBlock * from.width));
    for (std::int64_t j = 0; j < count; ++j) {
      float* const to = wide.data() + j * from.width;
      for (std::int64_t d = 0; d < from.width; ++d)
        to[d] = static_cast<float>(load_element(t, offsets[j] + d * from.stride));
      pointers[j] = to;
    }
    return {pointers.data(), count, from.width, DType::kF32};
  }

  const AttendPasses& passes_;
  std::int64_t queries_, depth_, begin_ = 0, end_ = 0;
  bool same_ = true;
  std::vector<float> q_, o_, scores_, scales_, most_, sums_, wide_keys_, wide_values_;
  std::vector<const void*> key_rows_, value_rows_;
};

}  // namespace dlblas::attention
