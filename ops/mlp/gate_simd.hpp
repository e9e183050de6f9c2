// The gates of the mlp family on CPUs, a vector of f32 at a time. NaN and infinities follow the
// formulas. Compiled once per instruction set, like cpu/simd.hpp. Read next: gate_ref.hpp.
#pragma once

#include "cpu/math.hpp"
#include "ops/mlp/gate.hpp"

namespace dlblas::DLBLAS_ISA {
namespace {

using mlp::Gate;

DLBLAS_INLINE Vec gate_of(Gate gate, Vec x) {
  switch (gate) {
    case Gate::kSilu:
      return silu(x);
    case Gate::kGelu:
      return broadcast(0.5f) * x * (broadcast(1.0f) + erf(x * broadcast(0.70710678f)));
    case Gate::kGeluTanh:
      return x * sigmoid(x * fma(broadcast(mlp::kTanhB), x * x, broadcast(mlp::kTanhA)));
    case Gate::kRelu:
      break;
  }
  return choose(less(x, zero()), zero(), x);
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
