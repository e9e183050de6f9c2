// One token of a state-space model: a part of a warp takes a row of the state, which is read and
// written once. In: state [batch, heads, P, N], x and dt [batch, heads, P], A [heads, P, N], B and
// C [batch, groups, N]. Out: the state, y [batch, heads, P]. Numerics: f32; y uses the state before
// it is rounded; the order of sums over N depends on N alone. Flow: call > validate > select >
// compile > [launch].  Read next: ops/ssm/step.cuh.
#pragma once

#include "device/reduce.cuh"
#include "ops/ssm/selective_state_update/selective_state_update_config.hpp"
#include "ops/ssm/step.cuh"

namespace dlblas::ssm {

template <StateUpdateTraits S, StateUpdateConfig K>
__global__ void __launch_bounds__(K.warps* kWarp)
    selective_state_update(const __grid_constant__ StateUpdateParams p) {
  using namespace ssm;
  constexpr int kLanes = state_update_lanes(S), kRows = K.rows, kAccess = S.access;
  constexpr int kGroups = K.warps * kWarp / kLanes;  // of threads, each with kRows rows
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const uint32_t head = blockIdx.x / static_cast<uint32_t>(p.blocks);
  const int64_t part = blockIdx.x - head * static_cast<uint32_t>(p.blocks);
  const int64_t batch = head / static_cast<uint32_t>(p.heads);
  const int64_t h = head - batch * p.heads, group = h / p.group_heads;
  const int64_t first = (part * kGroups + static_cast<int>(threadIdx.x) / kLanes) * kRows;

  // Rows beyond the head's last one reread it, and write nothing: all lanes reach the sums below.
  int64_t row[kRows];
  float x[kRows], dt[kRows], y[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    row[r] = min(first + r, p.channels - 1);
    x[r] = load_one<S.x>(p.x, batch * p.x_at[0] + h * p.x_at[1] + row[r] * p.x_at[2]);
    dt[r] = load_one<S.dt>(p.dt, batch * p.dt_at[0] + h * p.dt_at[1] + row[r] * p.dt_at[2]);
    if constexpr (S.bias != DType::kAbsent)
      dt[r] += load_one<S.bias>(p.bias, h * p.bias_at[0] + row[r] * p.bias_at[1]);
    if constexpr (S.softplus) dt[r] = softplus(dt[r]);
    y[r] = 0;
  }

#pragma unroll 1
  for (int64_t column = lane * kAccess; column < S.columns; column += kLanes * kAccess) {
    float b[kAccess], c[kAccess], state[kRows][kAccess], factor[kRows][kAccess];
    const auto state_of = [&](int r) {
      return batch * p.state_at[0] + h * p.state_at[1] + row[r] * p.state_at[2] +
             column * p.state_at[3];
    };
    const auto a_of = [&](int r) { return h * p.a_at[0] + row[r] * p.a_at[1]; };
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      load_line<S.state, kAccess, S.wide>(state[r], p.state, state_of(r), p.state_at[3]);
    load_line<S.b, kAccess, S.wide>(
        b, p.b, batch * p.b_at[0] + group * p.b_at[1] + column * p.b_at[2], p.b_at[2]);
    load_line<S.c, kAccess, S.wide>(
        c, p.c, batch * p.c_at[0] + group * p.c_at[1] + column * p.c_at[2], p.c_at[2]);
    if (!S.wide_a && p.a_at[2] == 0) {  // one number for a row
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float same = decay(dt[r], load_one<S.a>(p.a, a_of(r)));
#pragma unroll
        for (int i = 0; i < kAccess; ++i) factor[r][i] = same;
      }
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        load_line<S.a, kAccess, S.wide_a>(factor[r], p.a, a_of(r) + column * p.a_at[2], p.a_at[2]);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int i = 0; i < kAccess; ++i) factor[r][i] = decay(dt[r], factor[r][i]);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float in = dt[r] * x[r];
#pragma unroll
      for (int i = 0; i < kAccess; ++i) {
        state[r][i] = fmaf(factor[r][i], state[r][i], in * b[i]);
        y[r] = fmaf(c[i], state[r][i], y[r]);
      }
      if (first + r < p.channels)
        store_line<S.state, kAccess, S.wide>(p.state, state_of(r), p.state_at[3], state[r]);
    }
  }

#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float sum = warp_sum<kLanes>(y[r]);
    if (lane != r % kLanes || first + r >= p.channels) continue;
    if constexpr (S.d != DType::kAbsent)
      sum = fmaf(load_one<S.d>(p.d, h * p.d_at[0] + row[r] * p.d_at[1]), x[r], sum);
    if constexpr (S.z != DType::kAbsent)
      sum *= DeviceMath::silu(
          load_one<S.z>(p.z, batch * p.z_at[0] + h * p.z_at[1] + row[r] * p.z_at[2]));
    store_one<S.x>(p.y, batch * p.y_at[0] + h * p.y_at[1] + row[r] * p.y_at[2], sum);
  }
}

}  // namespace dlblas::ssm
