// The activations of the gemm family, shared by host, CPU and GPU code.
// Read next: matmul/matmul_config.hpp, matmul/cuda/matmul_epilogue.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas::gemm {

/// The activation's labels, in schema order.
enum class Activation : int32_t { kNone, kRelu, kLeakyRelu, kGelu, kSilu };

}  // namespace dlblas::gemm
