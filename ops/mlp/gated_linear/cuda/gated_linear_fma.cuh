// gated_linear in f32 multiply-adds, one product after the other.
// Read next: device/gemm/fma_mainloop.cuh, gated_linear_epilogue.cuh.
#pragma once

#include "device/gemm/fma_mainloop.cuh"
#include "ops/mlp/gated_linear/cuda/gated_linear_epilogue.cuh"
