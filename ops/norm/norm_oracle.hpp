// The device oracle of rms_norm and, with `add`, add_rms_norm, for their definitions.
// Read next: ops/norm/norm_oracle.cuh.
#pragma once

#include "registry/operator.hpp"

namespace dlblas::norm {
DeviceOracle norm_device_oracle(bool add);
}  // namespace dlblas::norm
