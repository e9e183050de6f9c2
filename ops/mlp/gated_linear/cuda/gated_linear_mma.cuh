// gated_linear on tensor cores, in tiles. Read next: device/gemm/mma_mainloop.cuh,
// gated_linear_epilogue.cuh.
#pragma once

#include "device/gemm/mma_mainloop.cuh"
#include "ops/mlp/gated_linear/cuda/gated_linear_epilogue.cuh"
