// matmul in f32 multiply-adds: the mainloop with matmul's epilogue, which matmul_fma_cuda.cpp
// compiles. Read next: device/gemm/fma_mainloop.cuh, matmul_epilogue.cuh.
#pragma once

#include "device/gemm/fma_mainloop.cuh"
#include "ops/gemm/matmul/cuda/matmul_epilogue.cuh"
