// gated_linear of few rows. Read next: device/gemm/rows_mainloop.cuh, gated_linear_epilogue.cuh.
#pragma once

#include "device/gemm/rows_mainloop.cuh"
#include "ops/mlp/gated_linear/cuda/gated_linear_epilogue.cuh"
