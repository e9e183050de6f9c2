// Lists of indices, i32 or i64: where sequences begin, how many keys they have, which pages.
// Read next: attention_host.hpp, cache_cuda.hpp.
#pragma once

#include <cstring>

#include "core/tensor.hpp"

namespace dlblas::attention {

/// Element `at`, in elements from data, on the host.
inline std::int64_t index_at(const TensorView& t, std::int64_t at) {
  const auto read = [&]<typename V>(V value) {
    std::memcpy(&value, static_cast<const V*>(t.data) + at, sizeof value);
    return std::int64_t{value};
  };
  return t.dtype == DType::kI64 ? read(std::int64_t{}) : read(std::int32_t{});
}

/// A list as kernels read it, in words of 32 bits: the low half of an i64 holds every value that
/// its bounds allow (check_pages, supports_sizes), so one kernel serves both types.
struct IndexWords {
  const std::int32_t* data;
  std::int64_t step;  // words from an element to the next of its memory
  explicit IndexWords(const TensorView& t)
      : data(static_cast<const std::int32_t*>(t.data)), step(t.dtype == DType::kI64 ? 2 : 1) {}
};

/// Sets a list's pointer and its strides in words.
template <std::size_t kRank>
void point_words(const Args& args, int tensor, const std::int32_t*& data,
                 std::int64_t (&strides)[kRank]) {
  const IndexWords words(args.tensors[tensor]);
  data = words.data;
  for (std::size_t i = 0; i < kRank; ++i) strides[i] = args.tensors[tensor].strides[i] * words.step;
}
/// The same of a list of one dimension, which may be absent.
inline void point_words(const Args& args, int tensor, const std::int32_t*& data,
                        std::int64_t& stride) {
  if (!args.has(tensor)) return;
  std::int64_t strides[1];
  point_words(args, tensor, data, strides);
  stride = strides[0];
}

}  // namespace dlblas::attention
