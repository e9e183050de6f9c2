// Steps of state-space models on rows, compiled once per instruction set.
// In: rows of a state and their inputs. Out: SsmPasses. Numerics: f32; a state of 16 bits is
// rounded once per step; sums over the state are f32 within 4096 columns, f64 across. Flow: call >
// validate > select > compile > [launch].  Read next: cpu/lines.hpp, steps_cpu.hpp.
#pragma once

#include "cpu/lines.hpp"
#include "ops/ssm/steps_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// log(1 + e^v). The quotient recovers what 1 + e loses for a small e.
DLBLAS_INLINE Vec softplus(Vec v) {
  const Vec one = broadcast(1.0f), e = exp(zero() - abs(v)), sum = one + e;
  const Vec rest = choose(equal(sum, one), e, log(sum) * e / (sum - one));
  return max(v, zero()) + choose(is_nan(v), v, rest);
}

void times(float* dt, const float* bias, bool soft, const float* x, float* dx, int64_t count) {
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        Vec v = load_lanes<kF>(dt + i, n);
        if (bias) v = v + load_lanes<kF>(bias + i, n);
        if (soft) v = softplus(v);
        store_lanes<kF>(dt + i, v, n);
        store_lanes<kF>(dx + i, v * load_lanes<kF>(x + i, n), n);
      });
}

/// One step of columns [begin, end); returns Σ c·state.
template <DType E, bool kSameA>
DLBLAS_INLINE float step(const ssm::SsmRow& row, int64_t t, int64_t begin, int64_t end) {
  const Vec dt = broadcast(row.dt[t]), dx = broadcast(row.dx[t]);
  const float *b = row.b + t * row.count, *c = row.c + t * row.count;
  const Vec same = kSameA ? exp(dt * broadcast(row.same_a)) : zero();
  Vec sums[4] = {zero(), zero(), zero(), zero()};
  const auto advance = [&](int64_t i, int n, Vec& sum) __attribute__((always_inline)) {
    Vec factor = same;
    if constexpr (!kSameA) factor = exp(dt * load_lanes<kF>(at<kF>(row.a, i), n));
    const Vec before = load_lanes<E>(at<E>(row.state, i), n);
    const Vec after = fma(factor, before, dx * load_lanes<kF>(b + i, n));
    store_lanes<E>(at<E>(row.state, i), after, n);
    sum = fma(load_lanes<kF>(c + i, n), n == kWidth ? after : choose(lanes_below(n), after, zero()),
              sum);
  };
  int64_t i = begin;
  for (; i + 4 * kWidth <= end; i += 4 * kWidth)
    for (int k = 0; k < 4; ++k) advance(i + k * kWidth, kWidth, sums[k]);
  for (; i + kWidth <= end; i += kWidth) advance(i, kWidth, sums[0]);
  if (i < end) advance(i, static_cast<int>(end - i), sums[0]);
  return reduce_add((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <DType E, bool kSameA>
void steps_of(const ssm::SsmRow& row) {
  constexpr int64_t kBlock = 4096;
  for (int64_t t = 0; t < row.steps; ++t) {
    double sum = 0;
    for (int64_t begin = 0; begin < row.count; begin += kBlock)
      sum +=
          step<E, kSameA>(row, t, begin, begin + kBlock < row.count ? begin + kBlock : row.count);
    row.y[t] = static_cast<float>(sum);
  }
}
template <bool kSameA>
void steps_from(const ssm::SsmRow& row) {
  if (row.state_type == DType::kF32)
    steps_of<DType::kF32, kSameA>(row);
  else if (row.state_type == DType::kF16)
    steps_of<DType::kF16, kSameA>(row);
  else
    steps_of<DType::kBF16, kSameA>(row);
}
void steps(const ssm::SsmRow& row) { row.a ? steps_from<false>(row) : steps_from<true>(row); }

void finish(float* y, const float* d, const float* x, const float* z, int64_t count) {
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        Vec v = load_lanes<kF>(y + i, n);
        if (d) v = fma(load_lanes<kF>(d + i, n), load_lanes<kF>(x + i, n), v);
        if (z) v = v * silu(load_lanes<kF>(z + i, n));
        store_lanes<kF>(y + i, v, n);
      });
}

template <bool kAcross>
void convolve_line(const ssm::ConvLine& line) {
  const auto factor = [](const float* p, int64_t i, int n) __attribute__((always_inline)) {
    return kAcross ? load_lanes<kF>(p + i, n) : broadcast(*p);
  };
  each_vector(
      line.count, [&](int64_t i, int n) __attribute__((always_inline)) {
        Vec sum = line.bias ? factor(line.bias, i, n) : zero();
        for (int64_t k = 0; k < line.taps; ++k)
          sum = fma(factor(line.weight + k * line.weight_step, i, n),
                    load_lanes<kF>(line.in + k * line.in_step + i, n), sum);
        store_lanes<kF>(line.y + i, line.silu ? silu(sum) : sum, n);
      });
}
void convolve(const ssm::ConvLine& line) {
  line.across ? convolve_line<true>(line) : convolve_line<false>(line);
}

}  // namespace

ssm::SsmPasses ssm_passes() { return {widen_row, narrow_row, times, steps, finish, convolve}; }

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
