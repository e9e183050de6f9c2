// The gradient of capacity gating in the logits. Some lanes of a warp share a token, each with some
// accesses of its row, so that sums over a token take few steps and each instruction serves several
// tokens. In: logits [T, E], the gradient of l_aux in each expert's gate, the choices that stayed
// and their gradients. Numerics: gates have the error of their power of e and two roundings; sums
// and differences are in f64, so nothing is lost where terms cancel. No atomics, one order.
// Flow: call > validate > select > compile > [launch].  Read next: gating.cuh.
#pragma once

#include "ops/moe/gating/gating.cuh"

namespace dlblas::moe {

namespace moe_gating {

/// e^(x − most) within 2.5 roundings, however far x is below: the rounding error of the difference
/// is added to the exponent's fraction. Results below 2^-125 may be 0.
__device__ inline float power_of(float x, float most) {
  const float d = x - most, whole = rintf(d * kLog2E), taken = d - x;
  const float lost = (x - (d - taken)) - (most + taken);
  float f = fmaf(d, 1.44269502f, -whole);  // log2 e in two parts
  f = fmaf(d, 1.92596299e-8f, f);
  f = fmaf(lost, kLog2E, f);
  // 2^f for |f| ≤ 0.51: the Taylor series in f · log 2.
  float y = 1.54035304e-4f;
  y = fmaf(y, f, 1.33335581e-3f);
  y = fmaf(y, f, 9.61812911e-3f);
  y = fmaf(y, f, 5.55041087e-2f);
  y = fmaf(y, f, 0.240226507f);
  y = fmaf(y, f, 0.693147181f);
  y = fmaf(y, f, 1.0f) * DeviceMath::exp2(whole);
  return d < -126.0f ? 0.0f : y;
}

/// 1 / x within 2 roundings of f64, for x in f32's range: a division is a function call, around
/// which ptxas spills.
__device__ inline double inverse_of(double x) {
  double y = DeviceMath::reciprocal(static_cast<float>(x));
#pragma unroll
  for (int i = 0; i < 2; ++i) y = __fma_rn(y, __fma_rn(-x, y, 1.0), y);
  return y;
}

/// A token's logits over S.lanes lanes: access i of lane l begins at expert (i · S.lanes + l) ·
/// kVec.
template <MoeGradientTraits S>
struct GradientRow {
  static constexpr int kVec = S.vec, kHeld = S.held > 0 ? S.held : 1;
  static constexpr int kAlign = S.aligned ? kVec * size_of(S.type) : 1;
  const void* logits;
  int64_t at, column;
  int32_t experts, lane;
  float x[kHeld][kVec];
  float most;  // the largest

  __device__ float load(int32_t expert) const {
    return load_one<S.type, S.aligned>(logits, at + expert * column);
  }
  /// f(first expert, logits) for each access of this lane within the row.
  template <typename F>
  __device__ void each(const F& f) {
    if constexpr (S.held > 0) {
#pragma unroll
      for (int i = 0; i < S.held; ++i)
        if (const int32_t e = (i * S.lanes + lane) * kVec; e < experts) f(e, x[i]);
    } else {
      for (int32_t e = lane * kVec; e < experts; e += S.lanes * kVec) {
        read(e, x[0]);
        f(e, x[0]);
      }
    }
  }
  __device__ void read(int32_t e, float (&to)[kVec]) const {
    if constexpr (kVec > 1)
      load_vec<S.type, kVec, kAlign>(logits, at + e).unpack(to);
    else
      to[0] = load(e);
  }
  __device__ void find_most() {
    if constexpr (S.held > 0) each([&](int32_t e, float(&v)[kVec]) { read(e, v); });
    most = -DeviceMath::infinity();
    each([&](int32_t, float(&v)[kVec]) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) most = DeviceMath::max(most, v[j]);
    });
    most = warp_max<S.lanes>(most);
  }
};

}  // namespace moe_gating

/// dlogits = g · (a − Σ_e g · a), where a is the gradient of l_aux in an expert's gate; a choice
/// that stayed adds w · (dw − Σ w · dw), where w is its weight. If weights are g / eps, Σ w · dw is
/// subtracted from a of all experts instead.
template <MoeGradientTraits S>
__global__ void __launch_bounds__(kMoeThreads, 3)
    moe_gate_backward(const __grid_constant__ MoeGateBackwardParams p) {
  using namespace moe_gating;
  using Row = GradientRow<S>;
  constexpr int kVec = S.vec, kShared = S.held > 0 ? S.held * S.lanes * kVec : 1;
  __shared__ double slopes[kShared];
  const double slope =
      static_cast<double>(load_one<S.result, S.aligned_results>(p.dl_aux, 0)) * p.share;
  const auto slope_of = [&](int32_t e) {
    return slope *
           moe_sort::load_word<S.aligned_results>(p.first_choices.data, e * p.first_choices.stride);
  };
  if constexpr (S.held > 0) {
    for (int32_t e = static_cast<int>(threadIdx.x); e < p.experts; e += kMoeThreads)
      slopes[e] = slope_of(e);
    __syncthreads();
  }
  const auto balance = [&](int32_t e) { return S.held > 0 ? slopes[e] : slope_of(e); };

  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int64_t own = blockIdx.x * static_cast<int64_t>(kMoeThreads / S.lanes) + thread / S.lanes;
  const bool there = own < p.tokens;
  const int64_t token = there ? own : p.tokens - 1;  // read again: lanes sum together
  Row row;
  row.logits = p.logits, row.column = p.column, row.experts = p.experts;
  row.at = token * p.row, row.lane = thread % S.lanes;
  row.find_most();
  double total = 0, mean = 0;
  row.each([&](int32_t e, float(&v)[kVec]) {
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const float power = power_of(v[j], row.most);
      if constexpr (S.held > 0) v[j] = power;  // from here on
      const double wide = power;
      total += wide, mean = __fma_rn(wide, balance(e + j), mean);
    }
  });
  total = warp_sum<S.lanes>(total);
  const double of_total = inverse_of(total);  // the largest has 1: no sum is small
  mean = warp_sum<S.lanes>(mean) * of_total;
  const auto inverse = static_cast<float>(of_total);
  const auto power = [&](float v) { return S.held > 0 ? v : power_of(v, row.most); };

  constexpr MoeSortTraits kIds = {DType::kI32, S.aligned_results};
  const auto id = [&](int32_t j) {
    const int64_t item = static_cast<int64_t>(j) * p.tokens + token;
    return moe_sort::load_index<kIds>(p.kept.data, item * p.kept.stride, p.experts);
  };
  const auto kept = [&](int32_t j) {  // the expert of a choice, where no earlier one has it
    const int32_t e = id(j);
    for (int32_t i = 0; i < j && e >= 0; ++i)
      if (id(i) == e) return -1;
    return e;
  };
  const auto gradient = [&](int32_t j) {
    const int64_t item = static_cast<int64_t>(j) * p.tokens + token;
    return load_one<S.result, S.aligned_results>(p.dweights.data, item * p.dweights.stride);
  };
  int32_t first_kept = -1;
  float first_power = 0, first_gradient = 0;  // of a lane's first choice: it is stored below
  double sum = 0, dot = 0;  // of powers: what gates have in common leaves a quotient
  for (int32_t j = row.lane; j < p.choices; j += S.lanes)
    if (const int32_t e = kept(j); e >= 0) {
      const float part = power_of(row.load(e), row.most), dw = gradient(j);
      if (j == row.lane) first_kept = e, first_power = part, first_gradient = dw;
      sum += part, dot += part * static_cast<double>(dw);
    }
  sum = warp_sum<S.lanes>(sum), dot = warp_sum<S.lanes>(dot);
  const bool divided = !(sum < p.eps * total);
  const double of_sum = inverse_of(divided ? sum : p.eps * total);
  dot *= of_sum;
  if (!divided) mean += dot;
  if (!there) return;  // lanes of a token leave together, and no lane waits for another token's

  const int64_t to = token * p.out_row;
  row.each([&](int32_t e, float(&v)[kVec]) {
    float made[kVec];
#pragma unroll
    for (int j = 0; j < kVec; ++j)
      made[j] = power(v[j]) * inverse * static_cast<float>(balance(e + j) - mean);
    if constexpr (kVec > 1) {
      Vec<S.type, kVec> all;
      all.pack(made);
      store_vec<S.type, kVec, Row::kAlign>(p.dlogits, to + e, all);
    } else {
      store_one<S.type, S.aligned>(p.dlogits, to + e * p.out_column, made[0]);
    }
  });
  constexpr uint32_t kLanes = S.lanes == kWarp ? ~0u : (1u << S.lanes % kWarp) - 1;
  __syncwarp(kLanes << (thread % kWarp / S.lanes * S.lanes));  // those that stayed: once more
  for (int32_t j = row.lane; j < p.choices; j += S.lanes) {
    const bool first = j == row.lane;
    const int32_t e = first ? first_kept : kept(j);
    if (e < 0) continue;
    const float mine = first ? first_power : power_of(row.load(e), row.most);
    const double dw = first ? first_gradient : gradient(j);
    const auto weight = static_cast<float>(mine * of_sum);
    const auto rest = static_cast<float>(divided ? dw - dot : dw);
    const auto common = static_cast<float>(balance(e) - mean);
    store_one<S.type, S.aligned>(p.dlogits, to + e * p.out_column,
                                 fmaf(mine * inverse, common, weight * rest));
  }
}

}  // namespace dlblas::moe
