// The gates of the mlp family, shared by host, CPU and GPU code.
// Read next: gate_ref.hpp (how exactly), gate.cuh, gate_simd.hpp.
#pragma once

#include "device/types.hpp"

namespace dlblas::mlp {

/// The activation's labels, in schema order.
enum class Gate : int32_t { kSilu, kGelu, kGeluTanh, kRelu };

/// gelu_tanh(x) = x · σ(x · (kTanhA + kTanhB · x²)): 2·√(2/π), and 0.044715 of it.
inline constexpr float kTanhA = 1.59576912f, kTanhB = 0.0713548163f;

}  // namespace dlblas::mlp
