// matmul on tensor cores, in tiles: the mainloop with matmul's epilogue, which matmul_mma_cuda.cpp
// compiles. Read next: device/gemm/mma_mainloop.cuh, matmul_epilogue.cuh.
#pragma once

#include "device/gemm/mma_mainloop.cuh"
#include "ops/gemm/matmul/cuda/matmul_epilogue.cuh"
