// The oracle of quantisation, in f64, and the error it allows. The scale is amax / largest, rounded
// once to f32. q is x / scale rounded to nearest even and saturated. Kernels divide by the rounded
// scale or multiply by its reciprocal, so the quotient has a relative error of at most
// kQuotientRoundings of u = 2^-24. A code is therefore exact unless that error crosses a tie: there
// the reference is the tie and the allowed error is half a step, so both neighbours pass and
// nothing else does.
// Read next: ops/common/quant_scale.hpp, ops/common/oracle_text.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::quant {

/// The scale 1, an approximate reciprocal 2, its product with x 1, and 1 of second order.
inline constexpr double kQuotientRoundings = 5;
/// Unit of the codes' magnitudes (Bound::magnitude): a rounding of f64.
inline constexpr double kCodeUnit = 0x1p-52;

inline double largest_of(DType type) { return type == DType::kI8 ? 127 : float_traits(type).max; }
/// The nearest value of q's type, ties to even, saturated; NaN becomes 0 in i8.
inline double code_of(DType type, double v) {
  if (type != DType::kI8) return round_to(type, v);
  return std::isnan(v) ? 0 : std::clamp(std::nearbyint(v), -128.0, 127.0);
}
/// `powers`: round up to a power of 2.
inline double scale_of(double amax, DType type, bool powers = false) {
  if (amax <= 0 || std::isnan(amax)) return amax <= 0 ? 1 : amax;
  const double scale = std::max(amax / largest_of(type), 0x1p-126), below = power_below(scale);
  return powers && below < scale ? 2 * below : scale;
}

/// Column `at` of result 0: the code of a quotient in which a kernel may have an error of `off`.
template <typename Row>
void store_code(Row& row, DType type, std::int64_t at, double quotient, double off) {
  if (!std::isfinite(quotient)) off = 0;
  const double low = code_of(type, quotient - off), high = code_of(type, quotient + off);
  if (low < high)
    row.store(0, at, (low + high) / 2, (high - low) / 2 / kCodeUnit);
  else
    row.store(0, at, code_of(type, quotient), 0);
}
/// The same for a quotient with kQuotientRoundings of error.
template <typename Row>
void store_code(Row& row, DType type, std::int64_t at, double quotient) {
  store_code(row, type, at, quotient, kQuotientRoundings * kRounding * std::abs(quotient));
}

/// Quantises columns [begin, end) of x to codes (result 0) and a scale (result 1, column `at`).
template <typename Row>
void quantize_columns(Row& row, DType type, std::int64_t begin, std::int64_t end, std::int64_t at,
                      bool powers) {
  const auto x = [&](auto c) { return row.load(0, begin + c); };
  const double amax = row.max(end - begin, [&](auto c) { return std::abs(x(c)); });
  const double scale = scale_of(amax, type, powers);
  row.store(1, at, scale, std::abs(scale));
  row.each(end - begin, [&](auto c) { store_code(row, type, begin + c, x(c) / scale); });
}

/// A value that kernels compute from others, infinite where f32 is, and the error theirs may have.
struct MadeValue {
  double y, off;
};

/// The code of such a value; `share` is the relative error of the scale.
template <typename Row>
void store_made_code(Row& row, std::int64_t c, MadeValue v, double scale, double share) {
  const double quotient = v.y / scale;
  const double rounded = kQuotientRoundings * kRounding + share;
  store_code(row, row.result_dtype(0), c, quotient, std::abs(quotient) * rounded + v.off / scale);
}

/// Codes (result 0) and scale (result 1, column `at`) of computed values, columns [begin, end).
template <typename Row, typename Made>
void store_made_codes(Row& row, std::int64_t begin, std::int64_t end, std::int64_t at,
                      const Made& made) {
  const DType type = row.result_dtype(0);
  const auto value = [&](auto c) { return made(begin + c); };
  const double amax = row.max(end - begin, [&](auto c) { return std::abs(value(c).y); });
  const double most = row.max(end - begin, [&](auto c) { return value(c).off; });
  const bool none = amax < 0x1p-151;  // f32 has nothing but zeros there, whose scale is 1
  const double scale = none ? 1 : scale_of(amax, type);
  const bool plain = std::isfinite(amax) && !none;
  // A kernel may have nothing but zeros here, thus a scale of 1: the scale is not judged.
  const bool zeros = plain && amax <= 2 * most;
  row.store(1, at, scale, zeros ? -1 : (plain ? most / kRounding : 0) / largest_of(type));
  const double share = plain && scale > 0x1p-126 ? most / amax : 0;  // the least one is exact
  row.each(end - begin, [&](auto c) { store_made_code(row, begin + c, value(c), scale, share); });
}

inline Bound quantize_bound(int judged) {
  return judged == 0 ? Bound{.magnitude = kCodeUnit} : Bound{.value = kRounding};
}

}  // namespace dlblas::quant
