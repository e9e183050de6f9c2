// Fixed-size integers for headers that the host compiler and NVRTC both read. NVRTC gets no include
// path, so nothing of the system may be included there. Read next: device/numeric.cuh.
#pragma once

#if defined(__CUDACC_RTC__)
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
using size_t = unsigned long;
#else
#include <cstddef>
#include <cstdint>
#endif
