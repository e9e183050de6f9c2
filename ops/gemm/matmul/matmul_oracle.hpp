// The device oracle of matmul, for its definition. Read next: ops/gemm/matmul/matmul_oracle.cuh.
#pragma once

#include "registry/operator.hpp"

namespace dlblas::gemm {
DeviceOracle matmul_device_oracle();
}  // namespace dlblas::gemm
