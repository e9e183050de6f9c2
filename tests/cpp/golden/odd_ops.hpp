// Made by tools/generate.cpp from the operators' schemas: one typed function per operator. Do not edit.
// In: references to the caller's memory, options with the schema's defaults. Out: new results, or the
// destinations of the `_out` form, which allocates nothing. Errors are thrown as in <dlblas/error.hpp>.
#ifndef DLBLAS_OPS_HPP_
#define DLBLAS_OPS_HPP_

#include <dlblas/dlblas.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace dlblas {
inline namespace v1 {

// odd_two, schema b93e7978b9335ef4 ------------------------------------------------------------

enum class OddTwoMode { kNone, k1x128, kAB, kAB_ };
constexpr const char* name_of(OddTwoMode value) {
  switch (value) {
    case OddTwoMode::kNone: return "";
    case OddTwoMode::k1x128: return "1x128";
    case OddTwoMode::kAB: return "a-b";
    case OddTwoMode::kAB_: return "a_b";
  }
  return "";
}

struct OddTwoOptions {
  TensorRef bias = {};
  OddTwoMode mode = OddTwoMode::k1x128;
  double scale = 1e-6;
  std::int64_t steps = 3;
  bool flag = true;
  std::optional<DType> out_dtype = {};
};

struct OddTwoResults {
  Tensor y;
  Tensor scale_out;
};

/// y = f(x)
/// odd_two(x: f[*T, 2F], bias: like(x)|f32[F]?, mode: ""|"1x128"|"a-b"|"a_b" = "1x128", scale:
/// float = 1e-6, *, steps: int = 3 key, flag: bool = true, out_dtype: dtype(f|f8) = none) -> (y:
/// out_dtype|like(x)[*T, F], scale_out: f32[*T, F/128]) where T: bucket(tokens)
inline OddTwoResults odd_two(
    const TensorRef& x,
    const OddTwoOptions& options = {},
    const Context& context = {}) {
  static const dlblas_op_t op = detail::find_op("odd_two");
  const detail::Arguments arguments(
      x,
      options.bias,
      name_of(options.mode),
      options.scale,
      options.steps,
      options.flag,
      options.out_dtype);
  auto results = detail::call_new<2>(op, arguments, context);
  return {std::move(results[0]), std::move(results[1])};
}
inline void odd_two_out(
    const OutRef& y,
    const OutRef& scale_out,
    const TensorRef& x,
    const OddTwoOptions& options = {},
    const Context& context = {}) {
  static const dlblas_op_t op = detail::find_op("odd_two");
  const detail::Arguments arguments(
      x,
      options.bias,
      name_of(options.mode),
      options.scale,
      options.steps,
      options.flag,
      options.out_dtype);
  detail::call_into(op, arguments, context, y, scale_out);
}

struct OddTwoInplaceOptions {
  OutRef bias = {};
  OddTwoMode mode = OddTwoMode::k1x128;
};

/// y = f(x)
/// odd_two_(x!y, bias!scale_out, mode)
inline void odd_two_(
    const OutRef& x,
    const OddTwoInplaceOptions& options = {},
    const Context& context = {}) {
  static const dlblas_op_t op = detail::find_op("odd_two_");
  const detail::Arguments arguments(x, options.bias, name_of(options.mode));
  detail::call_inplace(op, arguments, context);
}

// switch, schema 4d1e73212153e1f6 ------------------------------------------------------------

/// y = f(x)
/// switch(default: i8[B+1]! ~offsets, options: index[B] ~index<B, k: int) -> default: f32[]
inline Tensor switch_(
    const OutRef& default_,
    const TensorRef& options_,
    std::int64_t k,
    const Context& context = {}) {
  static const dlblas_op_t op = detail::find_op("switch");
  const detail::Arguments arguments(default_, options_, k);
  return std::move(detail::call_new<1>(op, arguments, context)[0]);
}
inline void switch_out(
    const OutRef& default__out,
    const OutRef& default_,
    const TensorRef& options_,
    std::int64_t k,
    const Context& context = {}) {
  static const dlblas_op_t op = detail::find_op("switch");
  const detail::Arguments arguments(default_, options_, k);
  detail::call_into(op, arguments, context, default__out);
}

// odd_after, schema 520b96768de60bd3 ------------------------------------------------------------

enum class OddAfterMode { kNone, kNone_ };
constexpr const char* name_of(OddAfterMode value) {
  switch (value) {
    case OddAfterMode::kNone: return "none";
    case OddAfterMode::kNone_: return "";
  }
  return "";
}

struct OddAfterOptions {
  TensorRef x = {};
};

/// y = f(x)
/// odd_after(x: f[N]?, y: f[N], dt: dtype(f), mode: "none"|"") -> y: dt|like(y)[N]
inline Tensor odd_after(
    const TensorRef& y,
    DType dt,
    OddAfterMode mode,
    const OddAfterOptions& options = {},
    const Context& context = {}) {
  static const dlblas_op_t op = detail::find_op("odd_after");
  const detail::Arguments arguments(options.x, y, dt, name_of(mode));
  return std::move(detail::call_new<1>(op, arguments, context)[0]);
}
inline void odd_after_out(
    const OutRef& y_out,
    const TensorRef& y,
    DType dt,
    OddAfterMode mode,
    const OddAfterOptions& options = {},
    const Context& context = {}) {
  static const dlblas_op_t op = detail::find_op("odd_after");
  const detail::Arguments arguments(options.x, y, dt, name_of(mode));
  detail::call_into(op, arguments, context, y_out);
}

// odd_no_tensor, schema a82403552cfd5acc ------------------------------------------------------------

struct OddNoTensorOptions {
  std::int64_t seed = -7;
};

/// y = f(x)
/// odd_no_tensor(n: int, seed: int = -7) -> y: f32[4]
inline Tensor odd_no_tensor(
    std::int64_t n,
    const OddNoTensorOptions& options = {},
    const Context& context = {}) {
  static const dlblas_op_t op = detail::find_op("odd_no_tensor");
  const detail::Arguments arguments(n, options.seed);
  return std::move(detail::call_new<1>(op, arguments, context)[0]);
}
inline void odd_no_tensor_out(
    const OutRef& y,
    std::int64_t n,
    const OddNoTensorOptions& options = {},
    const Context& context = {}) {
  static const dlblas_op_t op = detail::find_op("odd_no_tensor");
  const detail::Arguments arguments(n, options.seed);
  detail::call_into(op, arguments, context, y);
}

}  // namespace v1
}  // namespace dlblas

#endif  // DLBLAS_OPS_HPP_
