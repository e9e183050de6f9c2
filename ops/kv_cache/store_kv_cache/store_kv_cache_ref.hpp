// The oracle of store_kv_cache: cache[slot / page, slot % page] = x / scale in f64, clamped to what
// f8 holds; all other elements are what they were.
// The error it allows: none without a conversion. Else the quotient is rounded to f32 and then to
// the cache's type, half a step each; what was not written is given as it is, and has no other
// number within half a step. Read next: registry/operator.hpp, store_kv_cache_program.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "kernels/row_reference.hpp"

namespace dlblas::kv_cache {

enum StoreTensor : int { kK, kV, kKCache, kVCache, kSlots, kKScale, kVScale };
enum StoreLetter : int { kT, kHkv, kD, kP, kPage };

inline double stored(const Args& args, int cache, double value) {
  if (args.has(kKScale + cache)) value /= load_element(args.tensors[kKScale + cache], 0);
  const DType type = args.tensors[kKCache + cache].dtype;
  const double most = float_traits(type).max;
  if (is_f8(type)) return std::isnan(value) ? value : std::clamp(value, -most, most);
  return std::isinf(round_to(type, value)) ? round_to(type, value) : value;
}

/// Rows of the caches are heads of slots.
inline void store_kv_cache_reference(const Args& args, const std::int64_t* rows,
                                     std::int64_t num_rows, OracleOut* out) {
  const std::int64_t heads = args.letters[kHkv], width = args.letters[kD];
  const TensorView& slots = args.tensors[kSlots];
  std::unordered_map<std::int64_t, std::int64_t> token_of;
  for (std::int64_t t = 0; t < args.letters[kT]; ++t)
    token_of[static_cast<std::int64_t>(load_element(slots, t * slots.strides[0]))] = t;
  for (int cache = 0; cache < 2; ++cache) {
    const TensorView& x = args.tensors[kK + cache];
    const TensorView& before = args.tensors[kKCache + cache];
    const Rows from = rows_of(x), at = rows_of(before);
    for (std::int64_t i = 0; i < num_rows; ++i) {
      const auto token = token_of.find(rows[i] / heads);
      for (std::int64_t c = 0; c < width; ++c) {
        const std::int64_t place = i * width + c;
        if (token == token_of.end()) {
          out[cache].value[place] =
              load_element(before, at.offset(rows[i]) + c * before.strides[3]);
          out[cache].magnitude[place] = 0;
          continue;
        }
        const std::int64_t row = token->second * heads + rows[i] % heads;
        const double value = load_element(x, from.offset(row) + c * x.strides[2]);
        out[cache].value[place] = stored(args, cache, value);
        out[cache].magnitude[place] = std::abs(out[cache].value[place]);
      }
    }
  }
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

}  // namespace dlblas::kv_cache
