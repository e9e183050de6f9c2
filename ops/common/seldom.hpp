// Marks a function of a row program that few calls reach: out of line on a CPU, where otherwise
// every loop, one per dtype and row end, would contain it. Read next: device/row/base.hpp.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define DLBLAS_ROW_SELDOM __device__ static __forceinline__
#else
#define DLBLAS_ROW_SELDOM __attribute__((noinline)) static
#endif
