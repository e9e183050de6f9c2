// A row of capacity gating on CPUs, compiled once per instruction set.
// In: a row of logits. Out: MoeGatePasses. Flow: call > validate > select > compile > [launch].
// Read next: cpu/lines.hpp, ops/moe/gating/gating_config.hpp.
#pragma once

#include "cpu/lines.hpp"
#include "ops/moe/gating/gating_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

constexpr int64_t kBlock = 1024;  // columns whose sum is f32

/// x = the row in f32. Returns its largest element, NaN if it has one.
float widen(DType type, const void* row, int64_t count, float* x) {
  widen_row(type, row, count, x);
  Vec most = broadcast(-__builtin_inff());
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        most = max(choose(lanes_below(n), load_lanes<kF>(x + i, n), most), most);
      });
  return reduce_max(most);
}

void softmax(DType type, const void* row, int64_t count, float* x, float* gates) {
  const Vec largest = broadcast(widen(type, row, count, x));
  double sum = 0;  // of blocks, each in f32
  for (int64_t first = 0; first < count; first += kBlock) {
    Vec sums = zero();
    each_vector(
        count - first < kBlock ? count - first : kBlock, [&](int64_t i,
                                                             int n) __attribute__((always_inline)) {
          const Vec power = exp(load_partial<DType::kF32>(x + first + i, n) - largest);
          store_partial<DType::kF32>(gates + first + i, power, n);
          sums = sums + choose(lanes_below(n), power, zero());
        });
    sum += static_cast<double>(reduce_add(sums));
  }
  const Vec inverse = broadcast(1.0f / static_cast<float>(sum));
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        store_partial<DType::kF32>(gates + i, load_partial<DType::kF32>(gates + i, n) * inverse, n);
      });
}
constexpr int kHalf = kWidth / 2;  // f64 of a vector
using Doubles = double __attribute__((vector_size(kHalf * sizeof(double))));
using Floats = float __attribute__((vector_size(kHalf * sizeof(float))));
using Longs = int64_t __attribute__((vector_size(kHalf * sizeof(double))));

/// e^d for d ≤ 0, to a relative 1e-9; e^−700 for d below −700.
DLBLAS_INLINE Doubles power(Doubles d) {
  constexpr double kLog2E = 1.4426950408889634, kLn2 = 0.6931471805599453, kWhole = 0x1.8p52;
  const Doubles least = Doubles{} - 700;  // of NaN none is less: it stays
  const Doubles t = (d < least ? least : d) * kLog2E, shifted = t + kWhole;
  const Doubles r = (t - (shifted - kWhole)) * kLn2;
  Doubles p = r * (1.0 / 40320) + 1.0 / 5040;
  constexpr double kTerms[] = {1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1};
  for (const double term : kTerms) p = p * r + term;
  const Longs two = (((Longs)shifted << 52) + (int64_t{1023} << 52));
  return p * (Doubles)two;
}

/// gates = e^(x − max) of a row, in f64; of[0] their sum, of[1] that of gates · slopes.
void powers(DType type, const void* row, int64_t count, const double* slopes, float* x,
            double* gates, double* of) {
  const auto largest = static_cast<double>(widen(type, row, count, x));
  Doubles all = {}, sloped = {};
  for (int64_t i = 0; i < count; i += kHalf) {
    const bool whole = i + kHalf <= count;
    const auto lanes = static_cast<size_t>(whole ? kHalf : count - i);
    Floats v = {};
    Doubles slope = {};
    __builtin_memcpy(&v, x + i, whole ? sizeof v : lanes * sizeof(float));
    __builtin_memcpy(&slope, slopes + i, whole ? sizeof slope : lanes * sizeof(double));
    Doubles gate = power(__builtin_convertvector(v, Doubles) - largest);
    for (int64_t n = count - i; n < kHalf; ++n) gate[n] = 0;
    __builtin_memcpy(gates + i, &gate, whole ? sizeof gate : lanes * sizeof(double));
    all += gate, sloped += gate * slope;
  }
  of[0] = of[1] = 0;
  for (int n = 0; n < kHalf; ++n) of[0] += all[n], of[1] += sloped[n];
}

/// gates · scale · (slopes − mean), in f64, rounded to f32; if `to` is given, also to a row of
/// `type`.
void gradient(DType type, const double* gates, const double* slopes, int64_t count, double scale,
              double mean, float* values, void* to) {
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(gates[i] * scale * (slopes[i] - mean));
  if (to) narrow_row(type, values, count, to);
}

}  // namespace

moe::MoeGatePasses moe_gate_passes() { return {softmax, powers, gradient}; }

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
