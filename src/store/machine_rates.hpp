// This machine's measured rates in the store: one small record per device, beside those of tuning.
// In: rates of a whole device. Out: what core/rates.cpp scales its tables by.
// Read next: core/measured_rates.hpp, bindings/c/bench.cpp (which publishes).
#pragma once

#include "core/measured_rates.hpp"
#include "store/store.hpp"

namespace dlblas {

/// A device's key: no operator has this `op`, since operators' names have no slash.
Fields machine_key(const DeviceInfo& device);
/// Keeps measured rates. True: they are on the disk.
bool publish_rates(Store& store, const DeviceInfo& device, const MeasuredRates& rates);
/// The newest stored rates; zeros if there are none, or none that can be read.
MeasuredRates stored_rates(Store& store, const DeviceInfo& device);

}  // namespace dlblas
