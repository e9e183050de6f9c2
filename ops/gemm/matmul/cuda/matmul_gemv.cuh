// matmul of one to four rows: the mainloop with matmul's epilogue, which matmul_gemv_cuda.cpp
// compiles. Read next: device/gemm/gemv_mainloop.cuh, matmul_epilogue.cuh.
#pragma once

#include "device/gemm/gemv_mainloop.cuh"
#include "ops/gemm/matmul/cuda/matmul_epilogue.cuh"
