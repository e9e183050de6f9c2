// The oracle of store_kv_cache: cache[slot / page, slot % page] = x / scale in f64, clamped to the
// range of f8; all other elements keep their values.
// Error bounds: none without a conversion. Else the quotient is rounded to f32 and then to the
// cache's type, half a step each. Elements that are not written are reported as they are; half a
// step admits no other number. Read next: registry/operator.hpp, store_kv_cache_program.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::kv_cache {

enum StoreTensor : int { kK, kV, kKCache, kVCache, kSlots, kKScale, kVScale };
enum StoreLetter : int { kT, kHkv, kD, kDv, kP, kPage };

/// Records the token of row t as that of its slot: token + 1 in the values that rows share.
template <typename Row>
void keep_token(Row& row, std::int64_t slots) {
  const double slot = row.load_value(kSlots, row.index());
  if (slot >= 0 && slot < static_cast<double>(slots))
    row.keep(static_cast<std::int64_t>(slot), static_cast<double>(row.index() + 1));
}

/// Stores a row of a cache, one head of a slot, as result `cache`.
template <typename Row>
void store_head(Row& row, int cache, std::int64_t heads, std::int64_t width) {
  const std::int64_t at = row.index(), token = static_cast<std::int64_t>(row.kept(at / heads)) - 1;
  const DType type = row.result_dtype(cache);
  const double most = float_traits(type).max;
  row.each(width, [&](auto c) {
    if (token < 0) {  // as it was
      row.store_as_is(cache, c, row.load(kKCache + cache, c), 0);
      return;
    }
    double value = row.load_row(kK + cache, token * heads + at % heads, c);
    if (row.has(kKScale + cache)) value /= row.value(kKScale + cache);
    if (is_f8(type) && !std::isnan(value)) value = std::clamp(value, -most, most);
    if (!is_f8(type) && std::isinf(round_to(type, value))) value = round_to(type, value);
    row.store_as_is(cache, c, value, std::abs(value));
  });
}

template <typename Row>
void store_kv_cache_shared(Row& row) {
  keep_token(row, row.size(kP) * row.size(kPage));
}
template <typename Row>
void store_kv_cache_row(Row& row) {
  for (int cache = 0; cache < 2; ++cache)
    store_head(row, cache, row.size(kHkv), row.size(cache == 0 ? kD : kDv));
}

#if !defined(__CUDACC_RTC__)
inline kernels::SharedSize store_kv_cache_size(const Args& args) {
  return {args.letters[kT], args.letters[kP] * args.letters[kPage]};
}
inline Bound store_kv_cache_bound(const Problem& problem, int cache) {
  const DType type = problem.tensors[kKCache].dtype;
  const bool scaled = problem.tensors[kKScale + cache].dtype != DType::kAbsent;
  if (type == problem.tensors[kK].dtype && !scaled) return {};
  const FloatTraits out = float_traits(type);
  return {.magnitude = type == DType::kF32 ? 0 : (1 + 0x1p-20) * kRounding,
          .value = (1 + 0x1p-20) * out.eps / 2,
          .absolute = out.tiny / 2};
}
#endif

}  // namespace dlblas::kv_cache
