// Tensor views and the arguments of one call, bound to an operator's schema.
// In: what the caller passed. Out: plain values that validate fills in and launch reads.
// Flow: [call] > validate > select > compile > launch.
#pragma once

#include <cstdint>

#include "core/device.hpp"
#include "core/dtype.hpp"
#include "core/problem.hpp"
#include "core/schema.hpp"
#include "device/view.hpp"

namespace dlblas {

/// A tensor as kernels see it, and the device that holds its memory. Not initialised.
struct TensorView : StridedView {
  Device device;

  std::int64_t numel() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[i];
    return n;
  }
};

/// Whether elements of two views share memory. Exact, except for strides too tangled to search.
enum class Sharing : std::uint8_t { kNone, kSome, kUndecided };
Sharing sharing_of(const TensorView& a, const TensorView& b);
/// Undecided counts as overlapping. Slices of one tensor do not overlap: q, k and v of a
/// projection, kv[:, 0] and kv[:, 1].
inline bool overlap(const TensorView& a, const TensorView& b) {
  return sharing_of(a, b) != Sharing::kNone;
}
/// The same elements at the same addresses.
bool same_memory(const TensorView& a, const TensorView& b);
/// True if two indices address the same element (a broadcast, a sliding window). Such a tensor
/// cannot be a result.
bool overlaps_itself(const TensorView& t);

/// Alignments are distinguished up to 16 bytes: a larger one changes no kernel's choice, and varies
/// with the allocator.
inline constexpr int kAlignCap = 4;
/// The strides, in bytes, of all dimensions but the contiguous one, or-ed together: the alignment
/// of rows. A transposed matrix has its columns as rows; with `of_matrices`, this also holds in
/// three dimensions.
std::uint64_t pitch_bits(const TensorView& t, bool of_matrices = false);
/// Layout class and alignment of one tensor, for the Problem. `of_matrices`: the schema names three
/// dimensions, the last two of which form matrices; leading dimensions that flatten are rows.
/// `inner`: how many dimensions the schema names after `*T`; if more than one, as in [*T, H, D],
/// the layout says whether the dimensions of `*T` flatten among themselves.
TensorTraits traits_of(const TensorView& t, bool of_matrices = false, int inner = 1);

/// One call's arguments in schema order. Tensors: inputs, then results.
struct Args {
  const Schema* schema = nullptr;
  std::uint32_t present = 0;             // bit i: tensors[i] was given; set for all results
  const InplaceForm* inplace = nullptr;  // the form the caller named, if any
  TensorView tensors[kMaxTensors];
  ScalarValue scalars[kMaxScalars];
  std::int64_t letters[kMaxLetters];  // exact sizes, bound by validate

  Args() {}  // leaves the arrays uninitialised: a warm call touches only what it uses
  bool has(int tensor) const { return (present >> tensor) & 1u; }
  /// True if an argument of the in-place form receives result i.
  bool received(int i) const { return inplace && inplace->result_source[i] >= 0; }
  TensorView& result(int i) { return tensors[schema->num_inputs + i]; }
  const TensorView& result(int i) const { return tensors[schema->num_inputs + i]; }
  /// Tensor j of Schema::judged.
  const TensorView& judged(int j) const { return tensors[schema->judged[j]]; }
  /// The same, viewed as the rows that the oracle computes: where those are elements, rows of one
  /// column.
  TensorView judged_rows(int j) const {
    TensorView t = judged(j);
    if (schema->by_element >> j & 1u) t.shape[t.rank] = t.strides[t.rank] = 1, ++t.rank;
    return t;
  }
  /// False for a written input that is optional and absent.
  bool judges(int j) const { return j < schema->num_results || has(schema->judged[j]); }
};

/// The leading dimensions of a tensor whose last dimension is one row, flattened as far as strides
/// allow. offset(t) is the element offset of row t; one stride serves the common case.
struct Rows {
  std::int64_t count = 1;   // product of the leading dimensions
  std::int64_t stride = 0;  // elements between rows, when rank == 1
  int rank = 1;             // 1: one stride; above: mixed strides below
  std::int64_t shape[kMaxRank] = {};
  std::int64_t strides[kMaxRank] = {};

  std::int64_t offset(std::int64_t t) const {
    if (rank == 1) return t * stride;
    std::int64_t at = 0;
    for (int i = rank - 1; i >= 0; --i) {
      at += t % shape[i] * strides[i];
      t /= shape[i];
    }
    return at;
  }
};

/// Flattens all but the last `inner` dimensions.
inline Rows rows_of(const TensorView& x, int inner = 1) {
  Rows rows;
  int rank = 0;
  std::int64_t shape[kMaxRank], strides[kMaxRank];
  for (int i = 0; i < x.rank - inner; ++i) {
    rows.count *= x.shape[i];
    if (x.shape[i] == 1) continue;
    if (rank > 0 && strides[rank - 1] == x.strides[i] * x.shape[i]) {
      shape[rank - 1] *= x.shape[i];
      strides[rank - 1] = x.strides[i];
    } else {
      shape[rank] = x.shape[i];
      strides[rank++] = x.strides[i];
    }
  }
  rows.rank = rank <= 1 ? 1 : rank;
  rows.stride = rank == 0 ? 0 : strides[0];
  for (int i = 0; i < rank; ++i) {
    rows.shape[i] = shape[i];
    rows.strides[i] = strides[i];
  }
  return rows;
}

}  // namespace dlblas
