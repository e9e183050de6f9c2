// A function of a program that few calls take: out of line on a CPU, where a loop would hold it for
// each dtype and each end of a row. Read next: device/row/base.hpp.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define DLBLAS_ROW_SELDOM __device__ static __forceinline__
#else
#define DLBLAS_ROW_SELDOM __attribute__((noinline)) static
#endif
