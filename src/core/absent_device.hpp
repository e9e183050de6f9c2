// GPUs that need not be here: a device index beyond those of drivers stands for a typical card of
// an architecture, so that choices are explained and kernels compiled ahead, in an image build say.
// device_info() knows them (core/device.cpp). Read next: bindings/c/warmup.cpp.
#pragma once

#include "core/device.hpp"

namespace dlblas {

/// Added to compute capability times 10; DLBLAS_ABSENT_GPU of the C header.
inline constexpr std::int16_t kAbsentGpu = 1 << 14;

constexpr bool is_absent(Device device) {
  return device.type == DeviceType::kCuda && device.index >= kAbsentGpu;
}
/// Throws Error(kDevice) where the device is absent: for what cannot do without one.
void require_present(Device device);

}  // namespace dlblas
