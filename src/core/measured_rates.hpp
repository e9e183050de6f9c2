// Measured rates of a device on this machine, by which core/rates.hpp scales its tables. In: a
// source (src/store/machine_rates.cpp). Out: rates of a whole device, read once per process, so
// that choices do not change while it runs. Read next: core/rates.cpp.
#pragma once

#include "core/device.hpp"

namespace dlblas {

/// 0: not measured.
struct MeasuredRates {
  double copy_bytes_per_s = 0;  // read and written, from memory
  double peak_flops = 0;        // of independent f32 multiply-adds, at a CPU's level in force
};
/// Sets the function that returns a device's measured rates; called once, by src/store.
void set_measured_source(MeasuredRates (*source)(const DeviceInfo& device));
/// The measured rates that scale a device's tables; zeros: the tables are used as they are.
MeasuredRates measured_rates(const DeviceInfo& device);

}  // namespace dlblas
