// Bounds checks of tensors that address memory; see places.hpp. One pass over a contiguous tensor
// decides whether all values are in bounds; the offender is searched for only if one is not.
#include "dispatch/places.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "core/schema.hpp"
#include "dispatch/errors.hpp"

namespace dlblas {
namespace {

struct Span {
  std::int64_t least, most;
};

template <class V>
Span span_of(const void* data, std::int64_t count) {
  const V* values = static_cast<const V*>(data);
  V least = std::numeric_limits<V>::max(), most = std::numeric_limits<V>::min();
  for (std::int64_t i = 0; i < count; ++i)
    least = std::min(least, values[i]), most = std::max(most, values[i]);
  return {least, most};
}

// Element i of a tensor in row-major order, exactly: f64 has no 2^63 - 1.
std::int64_t element(const TensorView& t, std::int64_t i) {
  std::int64_t at = 0;
  for (int d = t.rank; d-- > 0; i /= t.shape[d]) at += i % t.shape[d] * t.strides[d];
  const auto read = [&]<typename V>(V value) {
    std::memcpy(&value, static_cast<const V*>(t.data) + at, sizeof value);
    return static_cast<std::int64_t>(value);
  };
  return t.dtype == DType::kI32 ? read(std::int32_t{}) : read(std::int64_t{});
}

bool contiguous(const TensorView& t) {
  std::int64_t expected = 1;
  for (int d = t.rank; d-- > 0; expected *= t.shape[d])
    if (t.shape[d] != 1 && t.strides[d] != expected) return false;
  return reinterpret_cast<std::uintptr_t>(t.data) % static_cast<std::size_t>(size_of(t.dtype)) == 0;
}

void check(const Schema& schema, const Args& args, int tensor) {
  const TensorView& t = args.tensors[tensor];
  const FillSpec& fill = schema.tensors[tensor].fill;
  const bool offsets = fill.fill == Fill::kOffsets, lengths = fill.fill == Fill::kLengths;
  const std::int64_t count = t.numel();
  if (count == 0 || (t.dtype != DType::kI32 && t.dtype != DType::kI64)) return;
  const bool counts = offsets || lengths || fill.inclusive;  // from 0 up to the limit itself
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (fill.has_limit) most = fill.limit(args.letters) - !counts;
  // A negative index names nothing: its token is skipped.
  std::int64_t least = counts ? 0 : std::numeric_limits<std::int64_t>::min();
  if (!offsets && contiguous(t)) {
    const Span span = t.dtype == DType::kI32 ? span_of<std::int32_t>(t.data, count)
                                             : span_of<std::int64_t>(t.data, count);
    if (span.least >= least && span.most <= most) return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t value = element(t, i);
    if (value < least || value > most)
      errors::out_of_bounds(schema, args, tensor, i, value, least, most);
    if (offsets) least = value;
  }
}

}  // namespace

void check_places(const Args& args) {
  const Schema& schema = *args.schema;
  for (std::uint32_t left = schema.addresses & args.present; left; left &= left - 1)
    check(schema, args, std::countr_zero(left));
}

}  // namespace dlblas
