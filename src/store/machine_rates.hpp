// What was measured of this machine, in the store: one small record for each device, beside those
// of tuning. In: rates of a whole device. Out: what core/rates.cpp scales its tables by.
// Read next: core/measured_rates.hpp, bindings/c/bench.cpp (which publishes).
#pragma once

#include "core/measured_rates.hpp"
#include "store/store.hpp"

namespace dlblas {

/// A device's key: no operator has this `op`, since their names have no slash.
Fields machine_key(const DeviceInfo& device);
/// Keeps what was measured. True: it is on the disk.
bool publish_rates(Store& store, const DeviceInfo& device, const MeasuredRates& rates);
/// The newest that is kept; zeros where there is none, or none that can be read.
MeasuredRates stored_rates(Store& store, const DeviceInfo& device);

}  // namespace dlblas
