// linear_residual on GPUs: its program, and the main loops that take it.
// Read next: linear_residual_product.hpp, device/gemm/product.cuh.
#pragma once

#include "device/gemm/product_kernels.cuh"
#include "ops/gemm/linear_residual/linear_residual_product.hpp"
#include "ops/gemm/matmul/cuda/matmul_activate.cuh"

namespace dlblas::gemm {

struct DeviceActivations {
  __device__ static __forceinline__ float activate(float x, Activation activation) {
    switch (activation) {
      case Activation::kRelu:
        return gemm::activate<Activation::kRelu>(x);
      case Activation::kLeakyRelu:
        return gemm::activate<Activation::kLeakyRelu>(x);
      case Activation::kGelu:
        return gemm::activate<Activation::kGelu>(x);
      case Activation::kSilu:
        return gemm::activate<Activation::kSilu>(x);
      case Activation::kNone:
        break;
    }
    return x;
  }
};

}  // namespace dlblas::gemm
