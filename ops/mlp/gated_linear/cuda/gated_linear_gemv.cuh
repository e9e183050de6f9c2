// gated_linear of one to four rows. Read next: device/gemm/gemv_mainloop.cuh,
// gated_linear_epilogue.cuh.
#pragma once

#include "device/gemm/gemv_mainloop.cuh"
#include "ops/mlp/gated_linear/cuda/gated_linear_epilogue.cuh"
