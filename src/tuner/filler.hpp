// Values of made inputs: a counter, not a stream of draws, so that threads and devices may fill any
// part of a tensor. In: a schema's fill, a seed, an element's index. Out: its value.
// Read next: tuner/memory.hpp; device/tuner_inputs.cuh, the same values on a GPU.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"
#include "core/schema.hpp"

namespace dlblas {

struct Filler {
  Filler(Fill fill, DType dtype, std::uint64_t seed, std::int64_t limit, std::int64_t numel);
  /// Of the element with this row-major index.
  double value(std::int64_t index) const;

  Fill fill;
  DType dtype;
  std::uint64_t seed;
  std::int64_t limit;  // index<E>: below this; offsets: the last one
  std::int64_t numel, step;
};

/// The seed of an operator's i-th tensor.
std::uint64_t tensor_seed(std::uint64_t seed, int tensor);

/// Values that mean places in other tensors: the caller's own are copied where there are any.
bool holds_indices(Fill fill);

}  // namespace dlblas
