// What was measured of a device on this machine: core/rates.hpp scales its tables by it. In: a
// source (src/store/machine_rates.cpp). Out: rates of a whole device, asked once for each process,
// so that choices do not change while it runs. Read next: core/rates.cpp.
#pragma once

#include "core/device.hpp"

namespace dlblas {

/// 0: it was not measured.
struct MeasuredRates {
  double copy_bytes_per_s = 0;  // read and written, from memory
  double peak_flops = 0;        // of independent f32 multiply-adds, at a CPU's level in force
};
/// Says what was measured of a device; set once, by src/store.
void set_measured_source(MeasuredRates (*source)(const DeviceInfo& device));
/// What the rates of a device are scaled by: zeros where they are the tables' own.
MeasuredRates measured_rates(const DeviceInfo& device);

}  // namespace dlblas
