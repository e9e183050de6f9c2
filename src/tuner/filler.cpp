// Values of generated inputs; see filler.hpp.
#include "tuner/filler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dlblas {
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ull;  // from one element's draw to the next

std::uint64_t mix(std::uint64_t x) {  // murmur's finaliser: enough for test data
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdull;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

// The sum of four uniform 16-bit numbers, scaled to variance 1: a bell cut off at 3.46 sigma.
double normal(std::uint64_t bits) {
  const auto sum = static_cast<double>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                       (bits >> 32 & 0xffff) + (bits >> 48));
  return (sum - 2 * 65535.0) * (1.7320508075688772 / 65535.0);
}

// A step coprime to n, near its golden section: i -> i * step mod n is a permutation.
std::int64_t coprime_step(std::int64_t n) {
  auto step = static_cast<std::int64_t>(static_cast<double>(n) * 0.618) | 1;
  while (std::gcd(step, n) != 1) ++step;
  return step;
}

}  // namespace

Filler::Filler(Fill fill_, DType dtype_, std::uint64_t seed_, std::int64_t limit_,
               std::int64_t numel_)
    : fill(fill_),
      dtype(dtype_),
      seed(seed_),
      limit(limit_),
      numel(numel_),
      step(1),
      width(numel_) {
  const std::int64_t cycle = fill == Fill::kPermutation ? numel : limit;
  if (holds_indices(fill) && cycle > 0) step = coprime_step(cycle);
}

Filler make_filler(const Schema& schema, int tensor, const std::int64_t* letters,
                   const TensorView& view, std::uint64_t seed, const ScalarValue* scalars) {
  const FillSpec& spec = schema.tensors[tensor].fill;
  std::int64_t limit = spec.limit(letters);
  if (!spec.has_limit) {  // offsets that name none: the bucketed letter, the tokens
    limit = schema.letters.empty() ? 0 : letters[0];
    for (std::size_t i = schema.letters.size(); i-- > 0;)
      if (schema.letters[i].bucketed) limit = letters[i];
  }
  if (spec.fill == Fill::kIndex && spec.inclusive) ++limit;
  Filler filler(schema.fill_of(tensor, scalars), view.dtype, tensor_seed(seed, tensor), limit,
                view.numel());
  if (view.rank > 0) filler.width = std::max<std::int64_t>(1, view.shape[view.rank - 1]);
  filler.minus_one = spec.minus_one;
  return filler;
}

// Group i ends near its even share, up to half a group to either side: groups differ, some are
// empty where there are few tokens, and none reaches beyond the limit.
double Filler::offset(std::int64_t i, std::uint64_t bits) const {
  if (i <= 0 || numel < 2) return 0;
  if (i >= numel - 1) return static_cast<double>(limit);
  if (empty && bits >> 61 == 0) return value(i - 1);
  const double away = static_cast<double>(bits >> 11) * 0x1p-53 - 0.5;
  const double share = (static_cast<double>(i) + away) / static_cast<double>(numel - 1);
  return std::clamp(std::floor(static_cast<double>(limit) * share), 0.0,
                    static_cast<double>(limit));
}

// Element `i` of a cycle through all of [0, cycle), with any starting point.
double Filler::nth(std::int64_t i, std::int64_t cycle, std::uint64_t start) const {
  const auto n = static_cast<unsigned __int128>(std::max<std::int64_t>(1, cycle));
  return static_cast<double>(static_cast<std::int64_t>(
      (static_cast<unsigned __int128>(i) * static_cast<std::uint64_t>(step) + start % n) % n));
}

bool Filler::stays(std::int64_t i) const {
  constexpr std::int64_t kFew = 16, kStride = 64;
  const bool together =
      fill == Fill::kPermutation || fill == Fill::kDistinct || fill == Fill::kDistinctRows;
  if (!in_part || together || numel < kFew) return false;
  const std::int64_t row = i / width, column = i % width, rows = numel / width;
  if (i % kStride == 0 || i == numel - 1) return true;
  if (width >= kFew && (column == 0 || column == width - 1)) return true;
  if (rows >= kFew && (row == 0 || row == rows - 1)) return true;
  return mix(seed ^ mix(static_cast<std::uint64_t>(i))) & 1;
}

double Filler::enlarged(std::int64_t i, double v) const {
  const std::int64_t row = i / width;
  const std::uint64_t bits = mix(mix(seed) + static_cast<std::uint64_t>(row) * kStep);
  const std::uint64_t kind = row == 0 ? 1 : bits & 3;
  if (kind == 2 && large_rows) return large / 3 * v;
  if (kind != 1 ||
      static_cast<std::uint64_t>(i % width) != (bits >> 8) % static_cast<std::uint64_t>(width))
    return v;
  const double size = large + large / 3 * (static_cast<double>(bits >> 40) * 0x1p-24);
  return row == 0 || (bits & 4) != 0 ? size : -size;
}

// Codes are any byte. Without a known bound, most integers are small and some negative; an eighth
// of them, and always the middle one, need more than 16 bits, or more than 32 in a type of 64.
double Filler::integer(std::int64_t i, std::uint64_t bits) const {
  const auto signed_of = [bits](int count) {
    return static_cast<double>(static_cast<std::int64_t>(bits << (64 - count)) >> (64 - count));
  };
  if (dtype == DType::kF4X2) return static_cast<double>(bits & 255);
  if (dtype == DType::kU8) return static_cast<double>(bits & (small ? 63 : 255));
  if (dtype == DType::kI8)
    return bits >> 58 == 0 ? signed_of(8) : std::nearbyint(32 * normal(bits));
  if (fill == Fill::kBits) return signed_of(dtype == DType::kI32 ? 32 : 53);
  const std::uint64_t kind = i == numel / 2 ? 7 : bits >> 61;
  if (small || numel < 2 || kind < 5) return static_cast<double>(bits & 63);
  if (kind == 7) return signed_of(dtype == DType::kI32 ? 25 : 36);
  return -1 - static_cast<double>(bits & 63);
}

double Filler::value(std::int64_t i) const {
  const std::uint64_t bits = mix((stays(i) ? first : seed) + static_cast<std::uint64_t>(i) * kStep);
  switch (fill) {
    case Fill::kZeros:
      return 0;
    case Fill::kIndex:
      if (minus_one && (limit <= 0 || bits >> 61 == 0)) return -1;
      return static_cast<double>(bits %
                                 static_cast<std::uint64_t>(std::max<std::int64_t>(1, limit)));
    case Fill::kOffsets:
      return offset(i, bits);
    case Fill::kPermutation:
      return nth(i, numel, mix(seed));
    case Fill::kDistinct:
    case Fill::kDistinctRows: {
      const bool rows = fill == Fill::kDistinctRows;
      const std::int64_t at = rows ? i % width : i;
      if (minus_one && (at >= limit || bits >> 61 == 0)) return -1;
      return nth(at, limit, mix(rows ? seed + static_cast<std::uint64_t>(i / width) : seed));
    }
    case Fill::kLengths: {
      const auto most = static_cast<std::uint64_t>(std::max<std::int64_t>(1, limit));
      if (limit <= 0 || (empty && i != numel - 1 && bits >> 61 == 0)) return 0;
      return static_cast<double>(i == numel - 1 ? most : 1 + bits % most);
    }
    case Fill::kPositive:
      return std::abs(normal(bits)) + 0.125;
    case Fill::kNegative:
      return -(std::abs(normal(bits)) + 0.125);
    case Fill::kNormal:
    case Fill::kBits:
      break;
  }
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF64:
      if (zero_row >= 0 && i / width == zero_row) return 0;
      return large > 0 && numel > 1 ? enlarged(i, normal(bits)) : normal(bits);
    case DType::kF8E8M0:
      return std::ldexp(1.0, static_cast<int>(bits & 7) - 4);
    case DType::kBool:
      return static_cast<double>(bits & 1);
    default:
      return integer(i, bits);
  }
}

bool has_rows_of_tokens(const Schema& schema, int tensor) {
  std::uint32_t tokens = 0, letters = 0;
  for (std::size_t l = 0; l < schema.letters.size(); ++l)
    tokens |= static_cast<std::uint32_t>(schema.letters[l].bucketed) << l;
  for (const DimExpr& dim : schema.tensors[static_cast<std::size_t>(tensor)].dims)
    letters |= dim.letters;
  return tokens == 0 ? tensor == 0 : (letters & tokens) != 0;
}

std::uint64_t tensor_seed(std::uint64_t seed, int tensor) {
  return mix(seed ^ (std::uint64_t(tensor + 1) << 56));
}

bool holds_indices(Fill fill) {
  return fill != Fill::kNormal && fill != Fill::kPositive && fill != Fill::kNegative &&
         fill != Fill::kZeros && fill != Fill::kBits;
}

}  // namespace dlblas
