// matmul of few rows: the mainloop with matmul's epilogue, which matmul_rows_cuda.cpp compiles.
// Read next: device/gemm/rows_mainloop.cuh, matmul_epilogue.cuh.
#pragma once

#include "device/gemm/rows_mainloop.cuh"
#include "ops/gemm/matmul/cuda/matmul_epilogue.cuh"
