// Parameters of the test epilogues, for the host and the kernels. Read next: gemm_epilogues.cuh.
#pragma once

#include "device/gemm/config.hpp"

namespace dlblas::test {

struct ScaledResidualParams {
  GemmOut out, residual;
  const float* alpha;  // [m]
  const float* beta;   // [n]
};

struct GatedParams {
  GemmOut out;
};

}  // namespace dlblas::test
