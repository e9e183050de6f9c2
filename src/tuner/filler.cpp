// Values of made inputs; see filler.hpp.
#include "tuner/filler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dlblas {
namespace {

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
      step(numel_ > 0 ? coprime_step(numel_) : 1) {}

double Filler::value(std::int64_t i) const {
  const std::uint64_t bits = mix(seed + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15ull);
  switch (fill) {
    case Fill::kZeros:
      return 0;
    case Fill::kIndex:
      return static_cast<double>(bits %
                                 static_cast<std::uint64_t>(std::max<std::int64_t>(1, limit)));
    case Fill::kOffsets:
      return numel < 2 ? 0 : static_cast<double>(limit * i / (numel - 1));
    case Fill::kPermutation:
      return static_cast<double>(static_cast<std::int64_t>(static_cast<unsigned __int128>(i) *
                                                           static_cast<std::uint64_t>(step) %
                                                           static_cast<std::uint64_t>(numel)));
    case Fill::kPositive:
      return std::abs(normal(bits)) + 0.125;
    case Fill::kNormal:
      break;
  }
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF64:
      return normal(bits);
    case DType::kI8:
      return std::nearbyint(32 * normal(bits));
    case DType::kBool:
      return static_cast<double>(bits & 1);
    default:
      return static_cast<double>(bits & 63);  // finite in f8, small in integers
  }
}

std::uint64_t tensor_seed(std::uint64_t seed, int tensor) {
  return mix(seed ^ (std::uint64_t(tensor + 1) << 56));
}

bool holds_indices(Fill fill) {
  return fill == Fill::kIndex || fill == Fill::kOffsets || fill == Fill::kPermutation;
}

}  // namespace dlblas
