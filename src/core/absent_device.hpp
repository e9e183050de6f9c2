// GPUs that need not be present: a device index beyond any driver's stands for a typical card of
// one architecture, so that choices can be explained and kernels compiled ahead of time, say while
// an image is built. device_info() describes them (core/device.cpp). Read next:
// bindings/c/warmup.cpp.
#pragma once

#include "core/device.hpp"

namespace dlblas {

/// Added to compute capability times 10; DLBLAS_ABSENT_GPU of the C header.
inline constexpr std::int16_t kAbsentGpu = 1 << 14;

constexpr bool is_absent(Device device) {
  return device.type == DeviceType::kCuda && device.index >= kAbsentGpu;
}
/// Throws Error(kDevice) if the device is absent; for code that needs a real one.
void require_present(Device device);

}  // namespace dlblas
