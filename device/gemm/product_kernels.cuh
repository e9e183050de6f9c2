// All kernels that take a product program, as far as the architecture has them.
// Read next: product.cuh, product_wgmma.cuh.
#pragma once

#include "device/gemm/fma_mainloop.cuh"
#include "device/gemm/gemv_mainloop.cuh"
#include "device/gemm/mma_mainloop.cuh"
#include "device/gemm/product.cuh"
#include "device/gemm/rows_mainloop.cuh"
#if __CUDA_ARCH__ == 900
#include "device/gemm/product_wgmma.cuh"
#endif
