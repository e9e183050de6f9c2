// Values of generated inputs: from a counter, not a stream of draws, so that threads and devices
// may fill any part of a tensor. In: a schema's fill, a seed, an element's index. Out: its value.
// Read next: tuner/memory.hpp; device/tuner_inputs.cuh, the same values on a GPU.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"
#include "core/schema.hpp"
#include "core/tensor.hpp"

namespace dlblas {

struct Filler {
  /// `limit`: indices stay below it; for offsets and lengths it is the largest value.
  Filler(Fill fill, DType dtype, std::uint64_t seed, std::int64_t limit, std::int64_t numel);
  /// The value of the element with this row-major index.
  double value(std::int64_t index) const;
  double offset(std::int64_t index, std::uint64_t bits) const;
  double nth(std::int64_t index, std::int64_t cycle, std::uint64_t start) const;
  /// With `in_part`: does this element keep the value that `first` gave it? The ends of rows and of
  /// the tensor, every 64th element, and half of the others do. None of fewer than 16 does, nor do
  /// indices that are drawn together.
  bool stays(std::int64_t index) const;
  /// `v`, or the large value that stands in its place.
  double enlarged(std::int64_t index, double v) const;
  /// The value of an integer without a role.
  double integer(std::int64_t index, std::uint64_t bits) const;

  Fill fill;
  DType dtype;
  std::uint64_t seed;
  std::int64_t limit, numel, step;
  std::int64_t width;      // of a row: distinct_rows
  bool minus_one = false;  // an eighth of the elements name nothing
  std::uint64_t first = 0;
  bool in_part = false;  // some elements stay as the seed `first` makes them
  // Some normal floats have this many sigma, up to four thirds of it, as models' activations do:
  // one in the first row and in a quarter of the others; 0: none. With `large_rows`, another
  // quarter of the rows is scaled by a third of it.
  double large = 0;
  bool large_rows = false;
  std::int64_t zero_row = -1;  // of normal floats, as padding is; -1: none
  bool empty = false;          // an eighth of the lengths are 0, of the groups empty
  bool small = false;          // integers without a role are 0 to 63
};

/// The filler of this input of the schema: the one maker of inputs, for the tuner and the harness.
/// `letters`: sizes in schema order. `view`: shape and dtype. `scalars`: see Schema::fill_of.
Filler make_filler(const Schema& schema, int tensor, const std::int64_t* letters,
                   const TensorView& view, std::uint64_t seed,
                   const ScalarValue* scalars = nullptr);

/// True for tensors whose whole rows may be large, or zeros: those with tokens or, in a schema
/// without tokens, the first.
bool has_rows_of_tokens(const Schema& schema, int tensor);

/// The seed of an operator's i-th tensor.
std::uint64_t tensor_seed(std::uint64_t seed, int tensor);

/// True if values are places in other tensors: the caller's own are copied if there are any.
bool holds_indices(Fill fill);

}  // namespace dlblas
