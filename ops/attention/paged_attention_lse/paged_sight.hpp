// The keys that a query of paged_attention_lse sees, and where they are: for the CPU
// implementations.
// Read next: paged_attention_lse_cpu.cpp.
#pragma once

#include "ops/attention/indices.hpp"
#include "ops/attention/paged_attention_lse/paged_attention_lse.hpp"

namespace dlblas::attention::paged {

inline std::int64_t whole(const TensorView& t, std::int64_t i) {
  return index_at(t, i * t.strides[0]);
}

class Pages {
 public:
  explicit Pages(const Args& args) : args_(args), page_(args.letters[kPage]) {}

  /// The rows of q of a sequence.
  std::pair<std::int64_t, std::int64_t> queries(std::int64_t b) const {
    if (!args_.has(kCuSeqlensQ)) return {b, b + 1};
    const TensorView& starts = args_.tensors[kCuSeqlensQ];
    const std::int64_t last = args_.letters[kT];
    const std::int64_t begin = std::clamp<std::int64_t>(whole(starts, b), 0, last);
    return {begin, std::clamp<std::int64_t>(whole(starts, b + 1), begin, last)};
  }
  std::int64_t length(std::int64_t b) const {
    std::int64_t pages = args_.letters[kW];
    if (args_.has(kIndptr)) {
      const TensorView& starts = args_.tensors[kIndptr];
      pages = std::clamp<std::int64_t>(whole(starts, b + 1) - whole(starts, b), 0, pages);
    }
    return std::clamp<std::int64_t>(whole(args_.tensors[kSeqLens], b), 0, pages * page_);
  }
  /// The keys that a query at a position sees.
  std::pair<std::int64_t, std::int64_t> sight(std::int64_t position, std::int64_t length) const {
    std::int64_t first = 0, end = length;
    if (args_.scalars[kCausal].i != 0) end = std::clamp<std::int64_t>(position + 1, 0, length);
    if (const std::int64_t window = args_.scalars[kWindow].i; window >= 0) {
      first = std::max<std::int64_t>(0, position - window);
      end = std::min(end, std::max<std::int64_t>(0, position + window + 1));
    }
    return {std::min(first, end), end};
  }
  /// The offset of a head of key n of sequence b in a cache.
  std::int64_t offset(const TensorView& cache, std::int64_t b, std::int64_t n,
                      std::int64_t head) const {
    const TensorView& t = args_.tensors[kPageTable];
    std::int64_t entry = n / page_;
    if (args_.has(kIndptr)) entry += whole(args_.tensors[kIndptr], b);
    const std::int64_t row = t.shape[0] == 1 ? 0 : b;
    const std::int64_t id = index_at(t, row * t.strides[0] + entry * t.strides[1]);
    return id * cache.strides[0] + n % page_ * cache.strides[1] + head * cache.strides[2];
  }

 private:
  const Args& args_;
  std::int64_t page_;
};

}  // namespace dlblas::attention::paged
